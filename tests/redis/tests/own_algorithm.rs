//! A user's own algorithm can have in Redis what those of the crate have: private state, a tail, a
//! further key, modules, a reply of its own if nothing was charged, and a charge that comes last.
//! It can keep in its private state under which plan it was charged, as those do; how it counts
//! under several plans is its own matter.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tollgate::{
    EachOf, PolicyDecision, RateLimiter, StoreErrorKind, Timestamp,
    algorithm::{Algorithm, Policy, PolicyId, Script, ScriptReply, Scripted, Status},
    clock::ManualClock,
    store::RedisStore,
};
use tollgate_redis_tests::{Cluster, Fickle, Redis};

/// So many units a minute after the last admission; it knows how many admissions there were, when
/// the first was, by which limit the last was admitted, and what each has cost. A refund leaves
/// these as they are, so it is charged last.
#[derive(Debug, Clone)]
struct Ledger {
    policy: Policy,
    /// What Redis replied if nothing was charged.
    replies: Arc<Mutex<Vec<[u64; 5]>>>,
}

const LEDGER: &str = "\
-- What stands here is not sent: not m.even Lua (
--- judge
if not (m.admissions >= 0 and m.admissions % 1 == 0) then error('UNREADABLE state') end
m.left = m.limit - m.used
m.fits = cost <= m.left or cost == 0
--- charge
m.used = m.used + cost
m.admissions = m.admissions + 1
m.plan = m.limit
dirty = true
if not state then m.tail = struct.pack('<d', now) end
call('RPUSH', m.costs, require('words').of(cost))
--- refund
m.used = math.max(m.used - cost, 0)
--- expire
m.expires_at = now + 60000000
--- reply
m.first_at = state and struct.unpack('<d', string.sub(state, m.tail_at, m.tail_end)) or 0
m.entries = call('LLEN', m.costs)
";

const WORDS: &str = "\
-- Costs in words.
return {
  of = function(number) return string.format('%d units', number) end,
}
";

impl Algorithm for Ledger {
    type State = u64;
    type Snapshot = Status;
    fn policy_id(&self) -> PolicyId {
        self.policy.id()
    }
    fn fresh(&self, _at: Timestamp) -> u64 {
        0
    }
    fn mend(&self, _used: &mut u64, _now: Timestamp) {}
    fn judge(&self, used: &u64, cost: u32, _now: Timestamp) -> bool {
        cost == 0 || used + u64::from(cost) <= self.policy.limit()
    }
    fn charge(&self, used: &mut u64, cost: u32, _now: Timestamp) {
        *used += u64::from(cost);
    }
    fn refund(&self, used: &mut u64, cost: u32, _now: Timestamp) {
        *used = used.saturating_sub(u64::from(cost));
    }
    fn is_fresh(&self, used: &u64, _now: Timestamp) -> bool {
        *used == 0
    }
    fn snapshot(&self, used: &u64, cost: u32, admitted: bool, _now: Timestamp) -> Status {
        let left = self.policy.limit() - used;
        Status::of(self.policy.limit(), left, u64::from(cost), admitted, |_| {
            None
        })
    }
    fn describe(&self, status: &Status, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(PolicyDecision::new(&self.policy, *status));
    }
}

impl Scripted for Ledger {
    fn script() -> Script {
        Script::new("ledger", LEDGER)
            .parameters(&["limit"])
            .state(&["used"])
            .private_state(&["admissions", "plan"])
            .tail([8, 0])
            .keys(&["costs"])
            .replies(&["left", "admissions", "first_at", "entries", "plan"])
            .requires(&[("words", WORDS)])
            .charged_last()
    }
    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.policy.limit());
    }
    fn state(&self, numbers: &[u64]) -> Option<u64> {
        numbers.first().copied()
    }
    fn numbers(&self, used: &u64, tell: &mut dyn FnMut(u64)) {
        tell(*used);
    }
    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<Status> {
        let now = reply.now();
        let member = reply.next_member()?;
        let used = match *member.numbers {
            [used] if member.charged => used,
            [left, admissions, first_at, entries, plan] if !member.charged => {
                let mut replies = self.replies.lock().unwrap();
                replies.push([left, admissions, first_at, entries, plan]);
                self.policy.limit().checked_sub(left)?
            }
            _ => return None,
        };
        Some(self.snapshot(&used, member.cost, member.admitted, now))
    }
}

const START: u64 = 1_700_000_000_000_000;

/// Those of other limits share its buckets.
fn ledger(limit: u64) -> Ledger {
    let policy = Policy::new("ledger", &[limit], Duration::from_secs(60));
    Ledger {
        policy: policy.named("ledger").unwrap(),
        replies: Arc::default(),
    }
}

#[test]
fn an_algorithm_of_ones_own_keeps_private_numbers_a_tail_and_a_key_and_replies_what_it_likes() {
    let redis = Redis::start();
    let clock = ManualClock::at(Timestamp::from_micros(START));
    let own = RedisStore::builder(redis.client().clone()).prefix("own");
    let servers = RedisStore::builder(redis.client().clone()).prefix("servers");
    for (prefix, store) in [
        ("own", own.clock(clock.clone()).build()),
        ("servers", servers.build()),
    ] {
        let rule = ledger(10);
        let limiter = RateLimiter::new(rule.clone(), store);
        let last_reply = || rule.replies.lock().unwrap().last().copied();

        let peeked = redis.wait(limiter.peek("bob")).unwrap();
        assert_eq!(
            (peeked.remaining(), last_reply()),
            (10, Some([10, 0, 0, 0, 0]))
        );
        assert_eq!(redis.keys(prefix).len(), 0, "who only looks writes nothing");

        for (cost, remaining) in [(2, 8), (4, 4), (1, 3)] {
            clock.advance(Duration::from_secs(1));
            let decision = redis.wait(limiter.check_cost("bob", cost)).unwrap();
            assert_eq!(decision.remaining(), remaining);
        }
        let keys = redis.keys(prefix);
        let [state, costs] = &keys[..] else {
            panic!("a state and a list: {keys:?}");
        };
        assert!(keys.iter().all(|key| redis.expires_at(key) > 0), "{keys:?}");
        let words: Vec<String> = redis.ask("LRANGE", &[costs, b"0", b"-1"]);
        assert_eq!(words, ["2 units", "4 units", "1 units"]);

        let before = redis.everything(prefix);
        let refused = redis.wait(limiter.check_cost("bob", 4)).unwrap();
        assert!(!refused.is_admitted());
        let [left, admissions, first_at, entries, plan] = last_reply().unwrap();
        assert_eq!((left, admissions, entries, plan), (3, 3, 3, 10));
        match prefix {
            "own" => assert_eq!(first_at, START + 1_000_000),
            _ => assert!(first_at > START, "{first_at}"),
        }
        assert_eq!(redis.everything(prefix), before, "a refusal writes nothing");

        redis.wait(limiter.refund("bob", 2)).unwrap();
        assert_eq!(redis.wait(limiter.peek("bob")).unwrap().remaining(), 5);
        assert_eq!(
            last_reply(),
            Some([5, 3, first_at, 3, 10]),
            "the tail stays as it is"
        );

        // The private numbers stand before the tail, which is the last 8 bytes.
        let value: Bytes = redis.ask("GET", &[state]);
        let mut strange = value.to_vec();
        let private = value.len() - 24..value.len() - 16;
        strange[private].copy_from_slice(&0.5_f64.to_le_bytes());
        redis.ask::<()>("SET", &[state, &strange, b"PX", b"60000"]);
        let error = redis.wait(limiter.check("bob")).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::InvalidInput, "{error:?}");

        // If the first of them is 0, the tail has another length.
        redis.ask::<()>("SET", &[state, &value[..value.len() - 8], b"PX", b"60000"]);
        let error = redis.wait(limiter.check("bob")).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::InvalidInput, "{error:?}");

        redis.wait(limiter.reset("bob")).unwrap();
        assert_eq!(redis.keys(prefix).len(), 0, "all keys are gone");
    }
}

#[test]
fn an_algorithm_of_ones_own_knows_under_which_of_its_plans_it_was_charged_last() {
    let redis = Redis::start();
    let plans = [ledger(10), ledger(20)];
    let small = RateLimiter::new(plans[0].clone(), redis.store_with_prefix("t"));
    let large = RateLimiter::new(plans[1].clone(), redis.store_with_prefix("t"));
    let plan_replied_to = |plan: usize| plans[plan].replies.lock().unwrap().last().unwrap()[4];

    redis.wait(small.check_cost("bob", 4)).unwrap();
    assert_eq!(redis.wait(large.peek("bob")).unwrap().remaining(), 16);
    assert_eq!(plan_replied_to(1), 10);
    redis.wait(large.check_cost("bob", 1)).unwrap();
    assert_eq!(redis.wait(small.peek("bob")).unwrap().remaining(), 5);
    assert_eq!(plan_replied_to(0), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn across_slots_a_charge_that_cannot_be_given_back_waits_until_the_other_key_has_admitted() {
    let cluster = Cluster::start().await;
    let store = RedisStore::builder(cluster.client().await).deadline(Duration::from_secs(30));
    let (store, rule) = (store.build(), ledger(10));
    let alone = RateLimiter::new(rule.clone(), store.clone());
    let both = RateLimiter::new(EachOf((rule.clone(), Fickle::default())), store);
    let refused = both.check(&EachOf((Some(0_u32), Some(1_u32)))).await;
    // It had admitted the peek: so the keys are in two slots, and two scripts were to charge them.
    let refused = refused.unwrap();
    assert_eq!(refused.policy(), "fickle-1-0us", "{refused:?}");
    assert!(!refused.is_admitted());
    alone.peek(&0_u32).await.unwrap();
    let last_reply = rule.replies.lock().unwrap().last().copied();
    assert_eq!(last_reply, Some([10, 0, 0, 0, 0]), "it was never charged");
}
