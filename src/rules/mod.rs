//! The limits of all routes in one file: rules by route and method, each with its key and its
//! limits.
//!
//! A layer is made of [`Rules`]; the chapter `limits_from_a_file` of the docs describes the file.

use std::{collections::HashMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use http::Request;
use serde::de::{Deserialize, Deserializer, Error};

use crate::{choice::Choose, key::MissingKey, keyed::KeysFor};

mod file;
mod key;
mod key_source;
mod limit;
mod matched;
mod routes;
mod set;

use file::File;
use key_source::NamedExtension;
use set::RuleSet;

pub(crate) use crate::decision::Few;
pub(crate) use key::Charge;
pub use key::{KeyValue, RuleKey};
pub use limit::RuleLimits;
pub(crate) use limit::RuleSnapshot;

/// Limits requests by the rules of a file: by route and method, each with its key, its limits and
/// its cost.
///
/// It is given to a layer twice, as the algorithm *and* as the key. A request that no rule matches
/// passes, unless the file says otherwise. Clones share the rules: put two into the layer, and keep
/// one to replace the rules while the program runs. Before a file is read, no request is limited.
///
/// - **Buckets**: a limit is identified by its name. So nobody's count is lost when its quota, the
///   order of the rules, their routes or their costs change, or when a rule is removed for a while.
///   Counts start again when a limit gets another name or algorithm. With another key a rule needs
///   another name: equal values of two headers, say, are one bucket.
/// - **Several limits** that apply to a request are decided together, as by
///   [`EachOf`](crate::EachOf): all of them admit, or none is charged.
/// - **[`RedisStore`](crate::store)** decides them in one script if they share a slot and it is not
///   too long: four always fit. Otherwise as [each of several keys](crate::store::RedisStore) in
///   several slots.
/// - **[`on_store_error`](crate::RateLimitLayer::on_store_error)** takes a limiter of one
///   algorithm, which counts by all limits and keys of a request, in shadow or not; it takes no
///   limiter of rules.
/// - **A route** that none of the first 10 000 requests has matched may be misspelled: the
///   `tracing` event `rules.route_not_matched`, with target `tollgate::rules`, is logged once.
/// - **Not supported**: [`InFlight`](crate::algorithm::InFlight) and
///   [settled](crate::algorithm::Settled) limits need a layer of their own.
///
/// # Example: two rules, and a file with a mistake
///
/// ```
/// use axum::{Router, routing::get};
/// use tollgate::{RateLimitLayer, rules::Rules, store::LocalStore};
/// # use tower::ServiceExt;
///
/// # #[derive(Clone)]
/// # struct User { id: u64 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let rules = Rules::new().extension("user", |user: &User| user.id);
/// let limit = RateLimitLayer::new(rules.clone(), LocalStore::new(), rules.clone());
/// let app: Router = Router::new().route("/search", get(|| async {})).layer(limit);
///
/// // Any serde format.
/// let file = |units: &str| serde_json::json!({
///     "rules": [
///         {
///             "name": "search",
///             "routes": ["GET /search"],
///             "key": { "extension": "user" },
///             "limit": { "algorithm": "fixed-window", "quota": units },
///         },
///         {
///             "name": "everything-else",
///             "key": "everyone",
///             "limit": { "algorithm": "token-bucket", "quota": "1000/s" },
///         },
///     ],
/// });
/// rules.replace(file("2/day")).unwrap();
/// # let call = async |user| {
/// #     let request = axum::extract::Request::get("/search").extension(User { id: user });
/// #     let response = app.clone().oneshot(request.body(axum::body::Body::empty()).unwrap()).await;
/// #     response.unwrap().status().as_u16()
/// # };
/// # assert_eq!([call(7).await, call(7).await, call(7).await, call(8).await], [200, 200, 429, 200]);
///
/// // The old rules stay.
/// let error = rules.replace(file("many")).unwrap_err();
/// assert!(error.to_string().starts_with("`quota`: \"many\" is not a quota"));
/// # assert_eq!(call(7).await, 429);
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Rules {
    in_force: Arc<ArcSwap<RuleSet>>,
    extensions: Arc<HashMap<String, NamedExtension>>,
}

impl Rules {
    /// No rules yet: every request passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a name to a value in a request's extensions. The file can use it as a key, `{
    /// extension = "user" }`, or to select a plan.
    ///
    /// The value is what the closure returns, as text. The closure runs for each request of a rule
    /// that uses the name. It must not block, and must name its argument's type.
    #[must_use]
    pub fn extension<T, V>(
        mut self,
        name: impl Into<String>,
        value: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Self
    where
        T: Send + Sync + 'static,
        V: fmt::Display,
    {
        Arc::make_mut(&mut self.extensions).insert(name.into(), NamedExtension::new(value));
        self
    }

    /// Reads the rules of a file, and replaces the current rules from the next request on.
    ///
    /// It takes any deserializer, such as `toml::Deserializer::parse(&text)?`.
    ///
    /// # Errors
    ///
    /// The file has a mistake, or no rules. The error names the field or the wrong value, with the
    /// line if the format knows it; or the rule, and what is wrong with it. The old rules stay.
    pub fn replace<'de, D: Deserializer<'de>>(&self, file: D) -> Result<(), D::Error> {
        let rules = File::deserialize(file)?.build(&self.extensions);
        let rules = rules.map_err(D::Error::custom)?;
        self.in_force.store(Arc::new(rules));
        Ok(())
    }

    /// Extracts the key of a request: the limits that apply to it, each with its own key. `None` if
    /// no rule matches the request.
    ///
    /// A layer does this itself.
    ///
    /// # Errors
    ///
    /// A rule matches, and the request lacks its key.
    ///
    /// # Example: a request that is decided by hand
    ///
    /// ```
    /// use http::Request;
    /// use tollgate::{RateLimiter, rules::Rules, store::LocalStore};
    ///
    /// let rules = Rules::new();
    /// rules.replace(serde_json::json!({
    ///     "rules": [{
    ///         "name": "reports",
    ///         "routes": [{ "route": "GET /reports", "cost": 5 }],
    ///         "key": { "header": "x-account" },
    ///         "limit": { "algorithm": "fixed-window", "quota": "9/day" },
    ///     }],
    /// })).unwrap();
    /// let request = Request::get("/reports").header("x-account", "ann").body(()).unwrap();
    /// let key = rules.extract(&request).unwrap().unwrap();
    /// assert_eq!(key.cost(), 5);
    ///
    /// let limiter = RateLimiter::new(rules, LocalStore::new());
    /// assert_eq!(limiter.check_cost(&key, key.cost()).now().remaining(), 4);
    /// assert!(!limiter.check_cost(&key, key.cost()).now().is_admitted());
    /// ```
    #[inline]
    pub fn extract<B>(&self, request: &Request<B>) -> Result<Option<RuleKey>, MissingKey> {
        self.in_force.load().find(request)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rules")
            .field(&*self.in_force.load())
            .finish()
    }
}

impl<Req> Choose<Req> for Rules {
    type Limit = RuleLimits;
    type Choice = ();

    #[inline]
    fn choose(&self, _request: &Req) {}

    #[inline]
    fn limit<'a>(&'a self, (): &'a ()) -> &'a RuleLimits {
        // The key says which limits apply.
        &RuleLimits
    }
}

// Without this the compiler would mention `Rules` for every key that does not fit.
#[diagnostic::do_not_recommend]
impl<B> KeysFor<RuleLimits, Request<B>> for Rules {
    type Key = RuleKey;
    type Rejection = MissingKey;

    #[inline]
    fn find(&self, request: &Request<B>) -> Result<Option<RuleKey>, MissingKey> {
        self.extract(request)
    }

    #[inline]
    fn cost(&self, key: &RuleKey, cost: u32) -> u32 {
        key.cost().saturating_mul(cost)
    }
}
