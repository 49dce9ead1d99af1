//! The state of a user's own algorithm may be hostile to `LocalStore`: its `Drop` may call the
//! limiter that evicts it.

use crate::hostile_keys::{In, Rigged, asked_while, rigged};
use crate::in_time::in_time;
use crate::local::{Limiter, MINUTE, store};
use crate::ready::ready;
use tollgate::{
    Quota, RateLimiter, Timestamp,
    algorithm::{Algorithm, FixedWindow, Policy, Status},
};

/// An algorithm with hostile states.
#[derive(Debug, Clone)]
struct Own(FixedWindow);

impl Algorithm for Own {
    type State = (<FixedWindow as Algorithm>::State, Rigged);

    fn policy(&self) -> &Policy {
        self.0.policy()
    }

    fn fresh(&self, at: Timestamp) -> Self::State {
        (self.0.fresh(at), rigged(7))
    }

    fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool {
        self.0.judge(&state.0, cost, now)
    }

    fn debit(&self, state: &mut Self::State, units: u64, now: Timestamp) {
        self.0.debit(&mut state.0, units, now);
    }

    fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp) {
        self.0.refund(&mut state.0, cost, now);
    }

    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool {
        self.0.is_fresh(&state.0, now)
    }

    fn status(&self, state: &Self::State, cost: u32, admitted: bool, now: Timestamp) -> Status {
        self.0.status(&state.0, cost, admitted, now)
    }
}

#[test]
fn a_state_that_is_dropped_may_ask_the_limiter_that_it_leaves() {
    in_time(|| {
        for key in [0, 7] {
            let (store, clock) = store(1);
            let own = Own(FixedWindow::new(Quota::per_minute(10)));
            let limiter: Limiter<_, u64> = RateLimiter::new(own, store);
            let check = |key: u64, cost| {
                let decision = ready(limiter.check_cost(&key, cost)).unwrap();
                decision.is_admitted()
            };
            let is_dropped = |what: &str, run: &dyn Fn()| {
                let limiter = limiter.clone();
                let ask = move || drop(ready(limiter.peek(&key)));
                assert!(asked_while(In::Drop, ask, run) > 0, "{what}");
            };
            assert!(check(0, 1));
            is_dropped("a look at a newcomer", &|| {
                assert_eq!(ready(limiter.peek(&7)).unwrap().remaining(), 10);
            });
            is_dropped("a refusal", &|| assert!(!check(7, 11)));
            // The store is full: newcomers share a state.
            assert!(check(7, 1));
            is_dropped("a newcomer without an entry", &|| assert!(check(7, 1)));
            is_dropped("a reset", &|| drop(ready(limiter.reset(&0))));
            clock.advance(MINUTE);
            is_dropped("the idle state of newcomers", &|| assert!(check(9, 0)));
            is_dropped("an idle key", &|| assert!(check(8, 1)));
        }
    });
}
