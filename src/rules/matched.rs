//! Logs routes that no request matches: they may be misspelled.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::logged_once::LoggedOnce;

/// After this many requests a warning names the routes that none of them has matched.
const WARN_AFTER: u32 = 10_000;

/// All routes of the rules, and which of them the first requests have matched.
#[derive(Default)]
pub(super) struct MatchedRoutes {
    routes: Vec<NamedRoute>,
    /// How many requests were counted, up to [`WARN_AFTER`].
    requests: AtomicU32,
}

struct NamedRoute {
    rule: Box<str>,
    route: Box<str>,
    was_matched: AtomicBool,
}

impl MatchedRoutes {
    /// Adds the next route, with the name of its rule, and its text in the file if it has a
    /// pattern: only a pattern can be misspelled.
    pub(super) fn add(&mut self, rule: &str, route: Option<&str>) {
        self.routes.push(NamedRoute {
            rule: rule.into(),
            route: route.unwrap_or_default().into(),
            was_matched: AtomicBool::new(route.is_none()),
        });
    }

    /// Whether the first [`WARN_AFTER`] requests are still being counted.
    #[inline]
    pub(super) fn counts(&self) -> bool {
        self.requests.load(Ordering::Relaxed) < WARN_AFTER
    }

    /// Counts a request whose path has matched the routes with these numbers. After the first
    /// [`WARN_AFTER`], logs the routes that none of them has matched.
    pub(super) fn count(&self, matched: impl IntoIterator<Item = u32>) {
        static LOGGED: LoggedOnce = LoggedOnce::new();

        for route in matched {
            let route = &self.routes[route as usize];
            route.was_matched.store(true, Ordering::Relaxed);
        }
        if self.requests.fetch_add(1, Ordering::Relaxed) + 1 != WARN_AFTER {
            return;
        }
        let unmatched = |route: &&NamedRoute| !route.was_matched.load(Ordering::Relaxed);
        for NamedRoute { rule, route, .. } in self.routes.iter().filter(unmatched) {
            if LOGGED.is_new(&format!("{rule}\n{route}")) {
                tracing::warn!(
                    name: "rules.route_not_matched",
                    target: "tollgate::rules",
                    %rule,
                    %route,
                    "none of the first {WARN_AFTER} requests has matched this route of a rule: \
                     spell it as in the router"
                );
            }
        }
    }
}
