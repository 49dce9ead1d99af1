//! The route that axum matched.

use std::{
    convert::Infallible,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use axum::extract::MatchedPath;
use http::Request;

use super::KeyExtractor;

/// Charges a request to the pattern of the route that axum matched, such as `/users/{id}`; all
/// unmatched requests share one bucket.
///
/// It is the route and not the path, so nobody gets a fresh bucket by spelling a path in another
/// way (`/Login`, `/login/`, `//login`, `/%6cogin`): axum either routes such a path to a known
/// pattern or to none.
///
/// # Where the layer has to be
///
/// axum writes the pattern into the request when it routes it. A layer that was added with
/// `Router::layer` or `Router::route_layer`, or to a handler, runs after that and sees the pattern;
/// in a router nested with `Router::nest` it is the whole pattern, from the root. Two kinds of
/// requests have none:
///
/// - Those that match no route: `Router::layer` wraps the fallback, too, so they arrive here.
/// - **All requests, if the layer wraps the router from outside** (`layer.layer(router)`,
///   `ServiceBuilder::service(router)`, tonic's `Server::layer`): the router has not run yet. Then
///   all requests share one bucket.
///
/// # Example: two users, one route
///
/// ```
/// use axum::{Router, extract::Request, middleware::{self, Next}, routing::get};
/// use tollgate::key::{KeyExtractor, MatchedRoute};
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app = Router::new()
///     .route("/users/{id}", get(async || "a user"))
///     .layer(middleware::from_fn(async |request: Request, _next: Next| {
///         let route = MatchedRoute::new().extract(&request).unwrap().unwrap();
///         route.to_string()
///     }));
///
/// for (path, route) in [
///     ("/users/1", "/users/{id}"),
///     ("/users/2", "/users/{id}"),
///     ("/Users/2", "no route"),
/// ] {
///     let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
///     let response = app.clone().oneshot(request).await.unwrap();
///     let body = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
///     assert_eq!(body, route);
/// }
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MatchedRoute;

impl MatchedRoute {
    /// Charges a request to the pattern of the route that axum matched.
    pub const fn new() -> Self {
        Self
    }
}

impl<B> KeyExtractor<Request<B>> for MatchedRoute {
    type Key = RouteKey;
    type Rejection = Infallible;

    fn extract(&self, request: &Request<B>) -> Result<Option<RouteKey>, Infallible> {
        let matched = request.extensions().get().cloned();
        Ok(Some(RouteKey(matched.map_or(Route::None, Route::Matched))))
    }
}

/// The pattern of the route that a request matched, as the router spells it.
pub(crate) fn matched_route<B>(request: &Request<B>) -> Option<&str> {
    request.extensions().get().map(MatchedPath::as_str)
}

/// The key of one route: equal for equal patterns, and one for all requests that match no route.
///
/// It shares axum's own copy of the pattern, so it takes no allocation.
///
/// # Example: reset the bucket of a route
///
/// ```
/// use http::Request;
/// use tollgate::key::{KeyExtractor, MatchedRoute, RouteKey};
///
/// let login = RouteKey::from("/login");
/// assert_eq!(login.pattern(), Some("/login"));
///
/// let unmatched = MatchedRoute::new().extract(&Request::new(())).unwrap();
/// assert_eq!(unmatched, Some(RouteKey::unmatched()));
/// assert_ne!(unmatched, Some(login));
/// ```
#[derive(Clone)]
pub struct RouteKey(Route);

impl RouteKey {
    /// The key of all requests that match no route.
    pub const fn unmatched() -> Self {
        Self(Route::None)
    }

    /// The pattern of the route, from the root of the router; `None` if no route was matched.
    pub fn pattern(&self) -> Option<&str> {
        match &self.0 {
            Route::None => None,
            Route::Matched(pattern) => Some(pattern.as_str()),
            Route::Named(pattern) => Some(pattern),
        }
    }
}

/// The key of the route with this pattern, spelled as in the router.
impl From<&str> for RouteKey {
    fn from(pattern: &str) -> Self {
        Self(Route::Named(pattern.into()))
    }
}

impl PartialEq for RouteKey {
    fn eq(&self, other: &Self) -> bool {
        self.pattern() == other.pattern()
    }
}

impl Eq for RouteKey {}

impl Hash for RouteKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pattern().hash(state);
    }
}

/// The pattern as text; no pattern as `n;`.
#[cfg(feature = "redis")]
impl super::PortableKey for RouteKey {
    fn write_to(&self, parts: &mut super::KeyParts) {
        match self.pattern() {
            Some(pattern) => parts.text(pattern),
            None => parts.absent(),
        };
    }
}

impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pattern().unwrap_or("no route"))
    }
}

impl fmt::Debug for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RouteKey({:?})", self.pattern())
    }
}

#[derive(Clone)]
enum Route {
    None,
    Matched(MatchedPath),
    Named(Arc<str>),
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use axum::{
        Router,
        body::Body,
        middleware::{self, Next},
        routing::get,
    };
    use tower::{Layer, ServiceExt};

    use super::*;

    #[test]
    fn a_route_is_printed_as_the_router_spells_it() {
        let printed = ["/users/{id}", ""].map(|pattern| RouteKey::from(pattern).to_string());
        assert_eq!(printed, ["/users/{id}", ""]);
        assert_eq!(RouteKey::unmatched().to_string(), "no route");
    }

    async fn answer_route(request: Request<Body>, _next: Next) -> String {
        let key = MatchedRoute::new().extract(&request).unwrap().unwrap();
        format!("{key:?}")
    }

    fn routes() -> Router {
        Router::new()
            .route("/login", get(async || ""))
            .nest("/api", Router::new().route("/users/{id}", get(async || "")))
    }

    async fn route_seen<S>(app: S, uri: &str) -> String
    where
        S: tower::Service<Request<Body>, Response = axum::response::Response>,
        S::Error: std::fmt::Debug,
    {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let response = app.oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), 1000).await;
        String::from_utf8(body.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn inside_router_layer_the_route_is_there_and_other_spellings_have_one_bucket() {
        let app = routes().layer(middleware::from_fn(answer_route));
        for (uri, route) in [
            ("/login", r#"RouteKey(Some("/login"))"#),
            ("/login?user=bob", r#"RouteKey(Some("/login"))"#),
            ("http://example.com/login", r#"RouteKey(Some("/login"))"#),
            ("/api/users/1", r#"RouteKey(Some("/api/users/{id}"))"#),
            ("/api/users/2", r#"RouteKey(Some("/api/users/{id}"))"#),
            ("/api/nothing", "RouteKey(None)"),
            ("/Login", "RouteKey(None)"),
            ("/login/", "RouteKey(None)"),
            ("//login", "RouteKey(None)"),
            ("/%6cogin", "RouteKey(None)"),
            ("/login;x", "RouteKey(None)"),
        ] {
            assert_eq!(route_seen(app.clone(), uri).await, route, "{uri}");
        }
    }

    #[tokio::test]
    async fn outside_the_router_no_request_has_a_route() {
        let app = middleware::from_fn(answer_route).layer(routes());
        let app = app.map_response(axum::response::IntoResponse::into_response);
        assert_eq!(route_seen(app, "/login").await, "RouteKey(None)");
    }

    #[tokio::test]
    async fn a_nested_service_sees_the_whole_pattern() {
        let inner = Router::new()
            .route("/{id}", get(async || ""))
            .layer(middleware::from_fn(answer_route));
        let app: Router = Router::new().nest_service("/api", inner);
        let seen = route_seen(app, "/api/7").await;
        assert_eq!(seen, r#"RouteKey(Some("/api/{id}"))"#);
    }

    #[tokio::test]
    async fn the_key_of_a_pattern_is_the_key_of_its_requests() {
        async fn compare(request: Request<Body>, _next: Next) -> String {
            let hasher = RandomState::new();
            let key = MatchedRoute::new().extract(&request).unwrap().unwrap();
            let named = RouteKey::from("/api/users/{id}");
            let alike = hasher.hash_one(&key) == hasher.hash_one(&named);
            format!("{} {alike}", key == named)
        }

        let app = routes().layer(middleware::from_fn(compare));
        assert_eq!(route_seen(app.clone(), "/api/users/1").await, "true true");
        assert_eq!(route_seen(app.clone(), "/login").await, "false false");
        assert_eq!(route_seen(app, "/nothing").await, "false false");
    }
}
