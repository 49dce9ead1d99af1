//! A user's own algorithm can have in Redis what those of the crate have: numbers, a limit that
//! changes, a reply to be read, and a charge that comes last.

use std::time::Duration;

use tollgate::{
    Decision, EachOf, RateLimiter, StoreErrorKind, Timestamp,
    algorithm::{Algorithm, Policy, Script, Scripted, Status},
    store::{LocalStore, Store},
};
use tollgate_redis_tests::{Cluster, Fickle, Redis, patient};

/// So many units a minute after the last admission. It also counts its admissions; a refund leaves
/// these as they are, so it is charged last.
#[derive(Debug, Clone)]
struct Ledger(Policy);

const LEDGER: &str = "
local function ledger(last, now, cost, must, limit, used, admissions)
  if used + cost > limit and cost > 0 and not must then return false end
  if cost > 0 then admissions = admissions + 1 end
  return true, now + 60000000, math.max(used + cost, 0), admissions
end
";

impl Algorithm for Ledger {
    type State = [u64; 2];
    fn policy(&self) -> &Policy {
        &self.0
    }
    fn fresh(&self, _at: Timestamp) -> [u64; 2] {
        [0, 0]
    }
    fn judge(&self, [used, _]: &[u64; 2], cost: u32, _now: Timestamp) -> bool {
        cost == 0 || used + u64::from(cost) <= self.0.limit()
    }
    fn debit(&self, [used, admissions]: &mut [u64; 2], units: u64, _now: Timestamp) {
        *used += units;
        *admissions += 1;
    }
    fn refund(&self, [used, _]: &mut [u64; 2], cost: u32, _now: Timestamp) {
        *used = used.saturating_sub(u64::from(cost));
    }
    fn is_fresh(&self, _state: &[u64; 2], _now: Timestamp) -> bool {
        false
    }
    /// Tells its admissions as if they were a time.
    fn status(&self, state: &[u64; 2], cost: u32, admitted: bool, _now: Timestamp) -> Status {
        let (limit, [used, admissions]) = (self.0.limit(), *state);
        let left = limit.saturating_sub(used);
        Status {
            reset_after_micros: admissions,
            ..Status::of(limit, left, cost.into(), admitted, |_| None)
        }
    }
}

impl Scripted for Ledger {
    fn script() -> Script {
        Script::new("ledger", LEDGER)
            .parameters(&["limit"])
            .state(&["used", "admissions"])
            .charged_last()
    }
    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        output(self.0.limit());
    }
    fn state(&self, _at: Timestamp, numbers: &[u64]) -> Option<[u64; 2]> {
        numbers.try_into().ok()
    }
    fn numbers(&self, state: &[u64; 2], _at: Timestamp, output: &mut dyn FnMut(u64)) {
        state.iter().for_each(|&number| output(number));
    }
}

/// Those of other limits share its buckets.
fn ledger(limit: u64) -> Ledger {
    let policy = Policy::new("ledger", &[limit], Duration::from_secs(60));
    Ledger(policy.named("ledger").unwrap())
}

#[test]
fn an_algorithm_of_ones_own_decides_in_redis_by_its_own_numbers() {
    let redis = Redis::start();
    let store = redis.store_with_prefix("own");
    let small = RateLimiter::new(ledger(10), store.clone());
    let large = RateLimiter::new(ledger(20), store);
    assert_eq!(redis.wait(small.peek("bob")).unwrap().remaining(), 10);
    assert_eq!(redis.keys("own").len(), 0, "who only looks writes nothing");

    for (cost, remaining) in [(2, 8), (4, 4), (1, 3)] {
        let decision = redis.wait(small.check_cost("bob", cost)).unwrap();
        assert_eq!(decision.remaining(), remaining);
    }
    let before = redis.everything("own");
    let refused = redis.wait(small.check_cost("bob", 4)).unwrap();
    assert!(!refused.is_admitted());
    assert_eq!(redis.everything("own"), before, "a refusal writes nothing");
    let keys = redis.keys("own");
    assert_eq!(keys.len(), 1);
    assert!(redis.expires_at(&keys[0]) > 0);

    redis.wait(small.refund("bob", 2)).unwrap();
    assert_eq!(redis.wait(small.peek("bob")).unwrap().remaining(), 5);
    let admitted = redis.wait(large.check_cost("bob", 15)).unwrap();
    assert_eq!(admitted.remaining(), 0);
    let refused = redis.wait(small.check("bob")).unwrap();
    assert_eq!((refused.is_admitted(), refused.remaining()), (false, 0));

    // `used`, after a byte, when it was written, and the offset of the server's clock.
    let mut strange = redis.ask::<bytes::Bytes>("GET", &[&keys[0]]).to_vec();
    strange[15..22].fill(0xFF);
    redis.ask::<()>("SET", &[&keys[0], &strange, b"PX", b"60000"]);
    let error = redis.wait(small.check("bob")).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::InvalidInput, "{error:?}");

    redis.wait(small.reset("bob")).unwrap();
    assert_eq!(redis.keys("own").len(), 0);
}

#[test]
fn an_algorithm_of_ones_own_counts_requests_and_is_rehearsed_if_its_policy_says_so() {
    async fn decided<S: Store<(Ledger, Ledger), String>>(store: S) -> Vec<Decision> {
        let requests = Ledger(ledger(2).0.per_request());
        let rehearsed = Ledger(ledger(80).0.named("rehearsed").unwrap().shadow());
        let limiter = RateLimiter::new((requests, rehearsed), store);
        let mut decided = Vec::new();
        for cost in [70, 70, 1] {
            decided.push(limiter.check_cost("bob", cost).await.unwrap());
        }
        decided
    }
    let redis = Redis::start();
    let in_memory = redis.wait(decided(LocalStore::new()));
    let told = in_memory
        .iter()
        .map(|it| (it.is_admitted(), it.remaining()));
    assert!(told.eq([(true, 1), (true, 0), (false, 0)]));
    assert!(in_memory.iter().all(|it| it.policies().len() == 1));
    let in_redis = redis.wait(decided(redis.store_with_prefix("marked")));
    assert_eq!(in_redis, in_memory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn across_slots_a_charge_that_cannot_be_given_back_waits_until_the_other_key_has_admitted() {
    let cluster = Cluster::start().await;
    let (store, rule) = (patient(cluster.client().await).build(), ledger(10));
    let both = RateLimiter::new(EachOf((rule.clone(), Fickle::default())), store.clone());
    let refused = both.check(&EachOf((Some(0_u32), Some(1_u32)))).await;
    // It had admitted the peek: so the keys are in two slots, and two scripts were to charge them.
    let refused = refused.unwrap();
    assert_eq!(refused.policy(), "fickle-1-0us", "{refused:?}");
    assert!(!refused.is_admitted());
    let looked = RateLimiter::new(rule, store).peek(&0_u32).await.unwrap();
    assert_eq!(looked.reset_after(), Duration::ZERO, "it was never charged");
}
