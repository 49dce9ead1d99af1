//! A service's whole policy in one file: rules by route and method, each with its key and its
//! limits.
//!
//! [`Rules`] is what a layer is made of; the chapter `limits_from_a_file` of the docs says what a
//! file may have.

use std::{collections::HashMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use http::Request;
use serde::de::{DeserializeSeed, Deserializer};

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

pub(crate) use key::Charge;
pub use key::{KeyValue, RuleKey};
pub use limit::RuleLimits;
#[doc(hidden)]
pub use limit::RuleSnapshot;
pub(crate) use limit::{MAX_LIMITS, RuleLimit};

/// Holds each request to the rules of a file: by route and method, each with its key, its limits
/// and its cost.
///
/// It stands in the algorithm's place *and* in the key's. A request that no rule is for passes,
/// unless the file says otherwise. Clones share the rules: keep one, to replace them while they
/// are in use, and put two into the layer. Before a file was read no request is limited.
///
/// - **Buckets**: a limit is known by its name, so nobody's count is lost when its numbers, the
///   order of the rules, their routes or their costs change, nor while a rule is gone for a while.
///   Where a limit is of another algorithm, or its rule has another key, counts begin anew.
/// - **Several limits** that apply to a request are decided together, as by
///   [`EachOf`](crate::EachOf): all of them admit, or none is charged. They are 16 at most.
/// - **[`RedisStore`](crate::store)** asks one script about all of them, if they are in one slot.
/// - **[`on_store_error`](crate::RateLimitLayer::on_store_error)** takes a limiter of one
///   algorithm, which counts by limit and key, and none of rules.
/// - **A route** that no request has matched in the first 10 000 may be misspelled: it is logged by
///   `tracing`, once, with target `tollgate::rules` and the name `rules.route_not_matched`.
/// - **Not in a file** are [requests in flight](crate::algorithm::InFlight) and what is
///   [settled](crate::algorithm::Settled): they need a layer of their own.
///
/// # Example: two rules, and a file that is wrong
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
/// // Any format that serde knows.
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
/// assert!(error.to_string().starts_with("rule 1: `quota`: \"many\" is not a quota"));
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

    /// Lets the file name what an outer layer has put into a request's extensions: as a key, `{
    /// extension = "user" }`, or to choose a plan by.
    ///
    /// The closure's text is the value. It runs for each request of a rule that names it, must not
    /// block, and must name the type that it looks at.
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

    /// Reads the rules of a file and puts them in force, in place of those before, from the next
    /// request on.
    ///
    /// It takes any deserializer: `toml::Deserializer::parse(&text)?`, say.
    ///
    /// # Errors
    ///
    /// The file is wrong somewhere. The error names the rule and the field, and, where the format
    /// knows it, the line; the old rules stay in force.
    pub fn replace<'de, D: Deserializer<'de>>(&self, file: D) -> Result<(), D::Error> {
        let rules = File::new(&self.extensions).deserialize(file)?;
        self.in_force.store(Arc::new(rules));
        Ok(())
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
        // The key says which limits.
        &RuleLimits
    }
}

// Keeps the compiler from naming this one where a key does not fit.
#[diagnostic::do_not_recommend]
impl<B> KeysFor<RuleLimits, Request<B>> for Rules {
    type Key = RuleKey;
    type Rejection = MissingKey;

    #[inline]
    fn find(&self, request: &Request<B>) -> Result<Option<RuleKey>, MissingKey> {
        self.in_force.load().find(request)
    }

    #[inline]
    fn cost(&self, key: &RuleKey, cost: u32) -> u32 {
        key.cost().saturating_mul(cost)
    }
}
