//! The key of a request by rules: which limits it is charged to, and for which keys.

use std::{
    fmt,
    hash::{Hash, Hasher},
    net::IpAddr,
    sync::Arc,
};

use crate::{algorithm::Limit, config::AnyAlgorithm, decision::Few, key::HeaderKey};

/// The limits that a request is charged to, each with the key that its rule found in the request.
///
/// [`observe`](crate::RateLimitLayer::observe) and [`enforce`](crate::RateLimitLayer::enforce) get
/// it as the key. Equal keys are charged to the same buckets. `Debug` prints the names of the
/// limits and the keys, and hides the values of headers and extensions as [`HeaderKey`] does.
#[derive(Clone)]
pub struct RuleKey {
    pub(super) cost: u32,
    pub(crate) charges: Few<Charge>,
}

/// One limit, and the key that it charges.
#[derive(Clone)]
pub(crate) struct Charge {
    pub(crate) limit: Arc<AnyAlgorithm>,
    pub(crate) key: KeyValue,
}

impl Charge {
    /// A charge of this key to each of the limits.
    pub(super) fn each(limits: &[Arc<AnyAlgorithm>], key: &KeyValue) -> impl Iterator<Item = Self> {
        let each = limits.iter().cloned();
        let key = || key.clone();
        each.map(move |limit| Self { limit, key: key() })
    }
}

/// The same policy and the same key: the same bucket.
impl PartialEq for Charge {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.limit.policy_id() == other.limit.policy_id()
    }
}

impl RuleKey {
    /// The cost of the request, by the rules.
    #[inline]
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// The names of the limits that the request is charged to, each with its key, in the order of
    /// the file.
    ///
    /// # Example: an observer that counts each limit and address
    ///
    /// ```
    /// use std::{collections::HashMap, net::SocketAddr, sync::{Arc, Mutex}};
    /// use axum::{Router, body::Body, http::Request, routing::get};
    /// use tollgate::{RateLimitLayer, observe::Event, store::LocalStore};
    /// use tollgate::rules::{KeyValue, RuleKey, Rules};
    /// # use tower::ServiceExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let rules = Rules::new();
    /// rules.replace(serde_json::json!({ "rules": [{
    ///     "name": "all",
    ///     "key": "address",
    ///     "limit": { "algorithm": "fixed-window", "quota": "5/day" },
    /// }] })).unwrap();
    /// let counts = Arc::new(Mutex::new(HashMap::new()));
    /// let seen = Arc::clone(&counts);
    /// let limit = RateLimitLayer::new(rules.clone(), LocalStore::new(), rules).observe(
    ///     move |event: &Event<'_, RuleKey>| {
    ///         for (limit, key) in event.key().iter().flat_map(|key| key.keys_by_limit()) {
    ///             if let KeyValue::Address(address) = key {
    ///                 let counted = (limit.to_owned(), *address);
    ///                 *seen.lock().unwrap().entry(counted).or_insert(0) += 1;
    ///             }
    ///         }
    ///     },
    /// );
    /// let app: Router = Router::new().route("/", get(|| async {})).layer(limit);
    /// # let peer: SocketAddr = "192.0.2.1:4711".parse().unwrap();
    /// # let request = Request::get("/").extension(peer).body(Body::empty()).unwrap();
    /// # app.oneshot(request).await.unwrap();
    /// // After one request of 192.0.2.1:
    /// let counted = ("all".to_owned(), "192.0.2.1".parse().unwrap());
    /// assert_eq!(counts.lock().unwrap()[&counted], 1);
    /// # });
    /// ```
    pub fn keys_by_limit(&self) -> impl Iterator<Item = (&str, &KeyValue)> {
        (self.charges().iter()).map(|charge| (charge.limit.name(), &charge.key))
    }

    /// The key of the limit with this name alone; none, if the request is not charged to it.
    ///
    /// # Example: one limit of several is reset
    ///
    /// ```
    /// use http::Request;
    /// use tollgate::{RateLimiter, rules::Rules, store::LocalStore};
    ///
    /// let rules = Rules::new();
    /// rules.replace(serde_json::json!({ "rules": [{
    ///     "name": "posts",
    ///     "key": { "header": "x-account" },
    ///     "limit": [
    ///         { "name": "posts-a-day", "algorithm": "fixed-window", "quota": "9/day" },
    ///         { "name": "posts-a-minute", "algorithm": "sliding-log", "quota": "2/min" },
    ///     ],
    /// }] })).unwrap();
    /// let request = Request::get("/").header("x-account", "ann").body(()).unwrap();
    /// let key = rules.extract(&request).unwrap().unwrap();
    ///
    /// let limiter = RateLimiter::new(rules, LocalStore::new());
    /// assert!(limiter.check(&key).now().is_admitted());
    /// limiter.reset(&key.of_limit("posts-a-day").unwrap()).now();
    /// let left: Vec<_> = limiter.peek(&key).now().policies().iter().map(|it| it.remaining()).collect();
    /// assert_eq!(left, [9, 1]);
    /// ```
    pub fn of_limit(&self, name: &str) -> Option<Self> {
        let own = self.charges().iter();
        let own = own.filter(|charge| charge.limit.name() == name);
        let (cost, charges) = (self.cost, own.cloned().collect::<Few<_>>());
        (!charges.as_slice().is_empty()).then_some(Self { cost, charges })
    }

    #[inline]
    pub(crate) fn charges(&self) -> &[Charge] {
        self.charges.as_slice()
    }
}

impl PartialEq for RuleKey {
    fn eq(&self, other: &Self) -> bool {
        self.charges() == other.charges()
    }
}

impl Eq for RuleKey {}

impl Hash for RuleKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for charge in self.charges() {
            charge.limit.policy_id().hash(state);
            charge.key.hash(state);
        }
    }
}

impl fmt::Debug for RuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.keys_by_limit()).finish()
    }
}

/// The key that a rule has found in a request.
///
/// `Debug` hides the values of headers and extensions, as [`HeaderKey`] does.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyValue {
    /// One key for everyone.
    Everyone,
    /// An address, or the prefix of one.
    Address(IpAddr),
    /// The value of a header field, of an extension, or a route.
    Value(HeaderKey),
    /// A combination of keys.
    Several(Arc<[KeyValue]>),
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Value(value) => write!(f, "{value}"),
            Self::Several(keys) => f.debug_list().entries(&**keys).finish(),
        }
    }
}

/// The same parts as those of the extractors' keys.
#[cfg(feature = "redis")]
impl crate::key::PortableKey for KeyValue {
    fn write_to(&self, parts: &mut crate::key::KeyParts) {
        match self {
            Self::Everyone => _ = parts.absent(),
            Self::Address(address) => _ = parts.address(*address),
            Self::Value(value) => value.write_to(parts),
            Self::Several(keys) => keys.iter().for_each(|key| key.write_to(parts)),
        }
    }
}
