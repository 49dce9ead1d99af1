//! A user's own algorithm can have in Redis what those of the crate have: private state, a tail, a
//! further key, modules, and a reply of its own if nothing was charged. What it cannot do is count
//! under several plans as those do, or requests in flight.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tollgate::{
    PolicyDecision, RateLimiter, StoreErrorKind, Timestamp,
    algorithm::{Algorithm, Policy, PolicyId, Script, ScriptReply, Scripted, Status},
    clock::ManualClock,
    store::RedisStore,
};
use tollgate_redis_tests::Redis;

/// So many units a minute after the last admission; it knows how many admissions there were, when
/// the first was, and what each has cost.
#[derive(Debug, Clone)]
struct Ledger {
    policy: Policy,
    /// What Redis replied if nothing was charged.
    replies: Arc<Mutex<Vec<[u64; 4]>>>,
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
            .private_state(&["admissions"])
            .tail([8, 0])
            .keys(&["costs"])
            .replies(&["left", "admissions", "first_at", "entries"])
            .requires(&[("words", WORDS)])
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
            [left, admissions, first_at, entries] if !member.charged => {
                let mut replies = self.replies.lock().unwrap();
                replies.push([left, admissions, first_at, entries]);
                self.policy.limit().checked_sub(left)?
            }
            _ => return None,
        };
        Some(self.snapshot(&used, member.cost, member.admitted, now))
    }
}

const START: u64 = 1_700_000_000_000_000;

fn ledger() -> Ledger {
    Ledger {
        policy: Policy::new("ledger", &[10], Duration::from_secs(60)),
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
        let rule = ledger();
        let limiter = RateLimiter::new(rule.clone(), store);
        let last_reply = || rule.replies.lock().unwrap().last().copied();

        let peeked = redis.wait(limiter.peek("bob")).unwrap();
        assert_eq!(
            (peeked.remaining(), last_reply()),
            (10, Some([10, 0, 0, 0]))
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
        let [left, admissions, first_at, entries] = last_reply().unwrap();
        assert_eq!((left, admissions, entries), (3, 3, 3));
        match prefix {
            "own" => assert_eq!(first_at, START + 1_000_000),
            _ => assert!(first_at > START, "{first_at}"),
        }
        assert_eq!(redis.everything(prefix), before, "a refusal writes nothing");

        redis.wait(limiter.refund("bob", 2)).unwrap();
        assert_eq!(redis.wait(limiter.peek("bob")).unwrap().remaining(), 5);
        assert_eq!(
            last_reply(),
            Some([5, 3, first_at, 3]),
            "the tail stays as it is"
        );

        // The private number stands before the tail, which is the last 8 bytes.
        let value: Bytes = redis.ask("GET", &[state]);
        let mut strange = value.to_vec();
        let private = value.len() - 16..value.len() - 8;
        strange[private].copy_from_slice(&0.5_f64.to_le_bytes());
        redis.ask::<()>("SET", &[state, &strange, b"PX", b"60000"]);
        let error = redis.wait(limiter.check("bob")).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::InvalidInput, "{error:?}");

        // If the private number is 0, the tail has another length.
        redis.ask::<()>("SET", &[state, &value[..value.len() - 8], b"PX", b"60000"]);
        let error = redis.wait(limiter.check("bob")).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::InvalidInput, "{error:?}");

        redis.wait(limiter.reset("bob")).unwrap();
        assert_eq!(redis.keys(prefix).len(), 0, "all keys are gone");
    }
}
