//! Units that are held over Redis and settled: every field is as the pure rule says.

use std::time::Duration;

use fastrand::Rng;
use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{
    EachOf, Quota, RateLimiter, Timestamp,
    algorithm::*,
    clock::ManualClock,
    store::{self, Change, RedisStore, Store},
};
use tollgate_algorithms::every_additive;
use tollgate_properties::numbers::{Held, Numbers, held};
use tollgate_redis_tests::{Redis, until};

const HISTORIES: u32 = 600;
const START: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask {
    Hold(u32),
    Peek,
    /// One of the holds, and what was spent of it, in quarters.
    Settle(usize, u32),
    /// One of the holds, of which nothing was spent, with its places in flight.
    End(usize),
    Debit(u32),
    Refund(u32),
    Reset,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) after: i64,
    pub(crate) ask: Ask,
    /// Which of the plans asks.
    pub(crate) plan: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![8 => 0..=4_i64, 2 => 0..=40_i64];
    let ask = prop_oneof![
        12 => (0..=5_u32).prop_map(Ask::Hold),
        1 => Just(Ask::Hold(u32::MAX)),
        2 => Just(Ask::Peek),
        9 => (0..8_usize, 0..=9_u32).prop_map(|(which, quarters)| Ask::Settle(which, quarters)),
        2 => (0..=9_u32).prop_map(Ask::Debit),
        1 => Just(Ask::Debit(u32::MAX)),
        1 => (0..=5_u32).prop_map(Ask::Refund),
        1 => Just(Ask::Reset),
    ];
    let step = (after, ask, 0..2_usize).prop_map(|(after, ask, plan)| Step { after, ask, plan });
    prop::collection::vec(step, 1..40)
}

/// Plays the steps on both: the rule with one state, and the store. Each step is of one of these
/// plans of a policy.
pub(crate) fn is_the_pure_rules<A: Scripted>(
    redis: &Redis,
    plans: [A; 2],
    steps: &[Step],
    name: &str,
) -> TestCaseResult {
    if plans[0].policy_id() != plans[1].policy_id() {
        // Of another shape it would be another state.
        return Ok(());
    }
    let clock = ManualClock::at(Timestamp::from_micros(START));
    let pooled = redis.pooled_store(clock.clone());
    let (store, key) = (pooled.store(), redis.new_key());
    let (mut state, mut is_known) = (plans[0].fresh(Timestamp::default()), false);
    let mut receipts: Vec<(usize, A::Snapshot, A::Snapshot, u32)> = Vec::new();
    let mut micros = START as i64;
    let decide = |plan: &A, ask| {
        let decided = Store::<A, String>::decide(&store, plan, &key, ask);
        redis.wait(decided.wait()).unwrap()
    };
    // It is sent at once, on the runtime that it is called on.
    let change = |plan: &A, change: Change<'_, A::Snapshot>| {
        redis
            .wait(async {
                Store::<A, String>::change(&store, plan, &key, change)
                    .wait()
                    .await
            })
            .unwrap();
    };
    let looks_write = steps.iter().any(|step| step.after < 0 || step.plan > 0);
    for (turn, step) in steps.iter().enumerate() {
        micros += step.after;
        let now = Timestamp::from_micros(micros.unsigned_abs());
        clock.set(now);
        let plan = &plans[step.plan];
        let start_of = |plan: &A| match is_known {
            true => state.clone(),
            false => plan.fresh(Timestamp::default()),
        };
        match step.ask {
            Ask::Hold(cost) => {
                let mut stepped = start_of(plan);
                let (admitted, ours) = plan.step(&mut stepped, cost, now);
                // Who is refused writes nothing, nor spends what was held by another plan.
                if admitted && cost > 0 {
                    (state, is_known) = (stepped, true);
                }
                let theirs = decide(plan, store::Ask::Charge(cost));
                let [told, should] = [&theirs.snapshot, &ours].map(|it| plan.decision_of(it));
                prop_assert_eq!(told, should, "{} turn {}: {:?}", name, turn, step);
                if admitted && cost > 0 {
                    receipts.push((step.plan, ours, theirs.snapshot, cost));
                }
            }
            // If a generation has ended, a look at a log writes that down, for a clock that steps
            // back afterwards, and for the next plan.
            Ask::Peek if name.contains("log") && looks_write => {}
            Ask::Peek if name.contains("buckets") && looks_write => {}
            Ask::Peek => {
                let (_, ours) = plan.look(&start_of(plan), 1, now);
                let theirs = decide(plan, store::Ask::Look(1));
                let [told, should] = [&theirs.snapshot, &ours].map(|it| plan.decision_of(it));
                prop_assert_eq!(told, should, "{} turn {}: {:?}", name, turn, step);
            }
            Ask::Settle(which, quarters) => {
                if receipts.is_empty() {
                    continue;
                }
                let (plan, ours, admission, held) = &receipts[which % receipts.len()];
                let (plan, held) = (&plans[*plan], *held);
                let spent = (u64::from(held) * u64::from(quarters)).div_ceil(4);
                let spent = u32::try_from(spent).unwrap_or(u32::MAX);
                if is_known || spent > held {
                    // The plan that held is the one that settles, whichever plan asks next.
                    let mut settled = start_of(plan);
                    plan.end(&mut settled, ours, Ending::Settled { held, spent }, now);
                    (state, is_known) = (settled, true);
                }
                let settled = Change::End(admission, Ending::Settled { held, spent });
                change(plan, settled);
            }
            Ask::End(_) if receipts.is_empty() => {}
            Ask::End(which) => {
                let (plan, ours, theirs, held) = receipts.remove(which % receipts.len());
                let plan = &plans[plan];
                for ending in [Ending::Settled { held, spent: 0 }, Ending::Over] {
                    plan.end(&mut state, &ours, ending, now);
                    change(plan, Change::End(&theirs, ending));
                }
            }
            Ask::Debit(units) => {
                if units > 0 {
                    let mut debited = start_of(plan);
                    plan.debit(&mut debited, units.into(), now);
                    (state, is_known) = (debited, true);
                }
                change(plan, Change::Debit(units));
            }
            Ask::Refund(cost) => {
                if is_known && cost > 0 {
                    plan.refund(&mut state, cost, now);
                }
                change(plan, Change::Refund(cost));
            }
            Ask::Reset => {
                is_known = false;
                change(plan, Change::Reset);
            }
        }
    }
    // With this nothing is renewed any more.
    for (plan, _, theirs, _) in &receipts {
        change(&plans[*plan], Change::End(theirs, Ending::Over));
    }
    Ok(())
}

/// Every algorithm whose units can be held, and tuples of them and others.
fn every_rule(redis: &Redis, plans: [Held; 2], steps: &[Step]) -> TestCaseResult {
    macro_rules! each {
        (($quota:ident, $burst:ident, $precision:ident, $interval:ident)
         $($name:literal, $algorithm:expr, $model:ident $numbers:tt;)+) => {$(
            let rule = |Held { numbers, at_most }: Held| {
                let ($quota, $burst) = (numbers.quota(), numbers.burst);
                let $precision = numbers.precision();
                let _ = ($burst, $precision);
                $algorithm.named("n").settled().held_at_most(micros(at_most))
            };
            is_the_pure_rules(redis, plans.map(rule), steps, $name)?;
        )+};
    }
    every_additive!(each, quota, burst, precision);
    let pair = |Held { numbers, at_most }: Held| {
        let bucket = TokenBucket::new(numbers.quota()).named("n").settled();
        let interval = MinInterval::new(micros(2)).named("i");
        (bucket.held_at_most(micros(at_most)), interval)
    };
    is_the_pure_rules(redis, plans.map(pair), steps, "(bucket, interval)")?;
    let pair = |Held { numbers, at_most }: Held| {
        let log = SlidingLog::new(numbers.quota()).named("m").settled();
        let window = FixedWindow::new(numbers.quota()).named("n");
        (window, log.held_at_most(micros(at_most)))
    };
    is_the_pure_rules(redis, plans.map(pair), steps, "(window, log)")?;
    let in_shadow = |Held { numbers, at_most }: Held| {
        let bucket = TokenBucket::new(numbers.quota()).named("n").settled();
        let window = FixedWindow::new(numbers.quota()).named("m");
        (window, bucket.held_at_most(micros(at_most)).shadow())
    };
    is_the_pure_rules(redis, plans.map(in_shadow), steps, "(window, shadow)")?;
    let triple = |Held { numbers, at_most }: Held| {
        let log = SlidingLog::new(numbers.quota()).named("n").settled();
        let bucket = TokenBucket::new(numbers.quota()).named("m").settled();
        let queue = LeakyBucket::new(Quota::new(9, micros(5))).queue();
        (log.held_at_most(micros(at_most)), bucket, queue.named("q"))
    };
    is_the_pure_rules(redis, plans.map(triple), steps, "(log, bucket, queue)")
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[test]
fn holds_and_settlements_are_the_pure_rules_in_every_field() {
    let redis = Redis::start();
    redis.for_all(
        HISTORIES,
        || (held(0..=6), steps()),
        |(held, mut steps)| {
            steps.iter_mut().for_each(|step| step.plan = 0);
            every_rule(&redis, [held; 2], &steps)
        },
    );
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn plans_that_hold_in_turn_are_the_pure_rules() {
    let redis = Redis::start();
    let values = || ([held(0..=6), held(0..=6)], any::<bool>(), steps());
    redis.for_all(
        HISTORIES,
        values,
        |([first, mut second], of_one_shape, steps)| {
            // Buckets of one name share a state whatever their periods are, windows do not.
            if of_one_shape {
                second.numbers = Numbers {
                    period: first.numbers.period,
                    precision: first.numbers.precision,
                    other_period: first.numbers.other_period,
                    ..second.numbers
                };
            }
            every_rule(&redis, [first, second], &steps)
        },
    );
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn capacities_near_the_end_of_exact_numbers_are_the_pure_rules() {
    let redis = Redis::start();
    let most = (1 << 53) - (1 << 32);
    let day = |units| Quota::new(units, Duration::from_secs(86_400));
    let values = || (50_000..=104_000_u64, 0..9_u64, steps());
    redis.for_all(HISTORIES / 4, values, |(units, less, mut steps)| {
        // Plans take turns: no debt may become too large to be counted.
        steps.retain(|step| !matches!(step.ask, Ask::Debit(u32::MAX)));
        let bucket = |units| TokenBucket::new(day(units)).named("n").settled();
        let window = |units| FixedWindow::new(day(units)).named("n").settled();
        let plans = [units, units - less];
        is_the_pure_rules(&redis, plans.map(bucket), &steps, "bucket")?;
        is_the_pure_rules(&redis, [most - less, most].map(window), &steps, "window")
    });
}

/// What Redis decides about a cost.
fn charged<A: Scripted>(
    redis: &Redis,
    (store, limit, key): (&RedisStore, &A, &String),
    cost: u32,
) -> A::Snapshot {
    let decided = Store::<A, String>::decide(store, limit, key, store::Ask::Charge(cost));
    redis.wait(decided.wait()).unwrap().snapshot
}

/// Plays the steps with a limit that holds (plan 0) and the same one that does not (plan 1).
fn is_one_state<H: Scripted, P: Scripted>(
    redis: &Redis,
    (holds, plain): (H, P),
    steps: &[Step],
) -> TestCaseResult {
    assert_eq!(holds.policy_id(), plain.policy_id());
    let clock = ManualClock::at(Timestamp::from_micros(START));
    let pooled = redis.pooled_store(clock.clone());
    let (store, key) = (pooled.store(), redis.new_key());
    let mut state = KeyLimit::fresh(&holds, Timestamp::default());
    let mut receipts = Vec::new();
    let mut now = START;
    macro_rules! change {
        ($limit:expr, $change:expr) => {
            redis.wait(async {
                let written = Store::<_, String>::change(&store, $limit, &key, $change);
                written.wait().await.unwrap();
            })
        };
    }
    for (turn, step) in steps.iter().enumerate() {
        now += step.after.unsigned_abs();
        let at = Timestamp::from_micros(now);
        clock.set(at);
        match (step.ask, step.plan) {
            (Ask::Hold(cost), 0) => {
                let (admitted, ours) = holds.step(&mut state.clone(), cost, at);
                let theirs = charged(redis, (&store, &holds, &key), cost);
                let [told, should] = [&theirs, &ours].map(|it| holds.decision_of(it));
                prop_assert_eq!(told, should, "{}: {:?}", turn, step);
                if admitted && cost > 0 {
                    holds.step(&mut state, cost, at);
                    receipts.push((ours, theirs, cost));
                }
            }
            (Ask::Hold(cost), _) => {
                let admitted = holds.judge(&state, cost, at);
                if admitted && cost > 0 {
                    KeyLimit::debit(&holds, &mut state, cost.into(), at);
                }
                let should = holds.decision_of(&holds.snapshot(&state, cost, admitted, at));
                let told = plain.decision_of(&charged(redis, (&store, &plain, &key), cost));
                prop_assert_eq!(told, should, "{}: {:?}", turn, step);
            }
            (Ask::Settle(which, quarters), _) if !receipts.is_empty() => {
                let (ours, admission, held) = receipts.remove(which % receipts.len());
                let spent = (u64::from(held) * u64::from(quarters)).div_ceil(4) as u32;
                let ending = Ending::Settled { held, spent };
                holds.end(&mut state, &ours, ending, at);
                change!(&holds, Change::End(&admission, ending));
            }
            (Ask::Debit(units), plan) if units > 0 && units < u32::MAX => {
                KeyLimit::debit(&holds, &mut state, units.into(), at);
                match plan {
                    0 => change!(&holds, Change::Debit(units)),
                    _ => change!(&plain, Change::Debit(units)),
                }
            }
            (Ask::Refund(cost), plan) if cost > 0 => {
                KeyLimit::refund(&holds, &mut state, cost, at);
                match plan {
                    0 => change!(&holds, Change::Refund(cost)),
                    _ => change!(&plain, Change::Refund(cost)),
                }
            }
            (Ask::Reset, _) => {
                state = KeyLimit::fresh(&holds, Timestamp::default());
                change!(&plain, Change::Reset);
            }
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn holding_is_turned_on_and_off_and_begins_nothing_anew() {
    let redis = Redis::start();
    let values = || (held(0..=6), steps());
    redis.for_all(
        HISTORIES / 2,
        values,
        |(Held { numbers, at_most }, steps)| {
            macro_rules! each {
            (($quota:ident, $burst:ident, $precision:ident, $interval:ident)
             $($name:literal, $algorithm:expr, $model:ident $numbers:tt;)+) => {$(
                let ($quota, $burst) = (numbers.quota(), numbers.burst);
                let $precision = numbers.precision();
                let _ = ($burst, $precision);
                let holds = $algorithm.settled().held_at_most(micros(at_most));
                is_one_state(&redis, (holds, $algorithm), &steps)?;
            )+};
        }
            every_additive!(each, quota, burst, precision);
            let bucket = TokenBucket::new(numbers.quota());
            let log = SlidingLog::new(numbers.quota());
            let queue = LeakyBucket::new(Quota::new(9, micros(5))).queue();
            let holds = bucket.clone().settled().held_at_most(micros(at_most));
            let tuples = (
                (holds, log.clone(), queue.clone()),
                (bucket.clone(), log.clone(), queue.clone()),
            );
            is_one_state(&redis, tuples, &steps)?;
            let holds = log.clone().settled().held_at_most(micros(at_most));
            let in_shadow = bucket.clone().shadow();
            let tuples = (
                (queue.clone(), holds, in_shadow.clone()),
                (queue, log, in_shadow),
            );
            is_one_state(&redis, tuples, &steps)
        },
    );
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

fn tokens() -> tollgate::algorithm::Settled<TokenBucket> {
    TokenBucket::new(Quota::per_day(10)).settled()
}

#[test]
fn a_hold_and_a_settlement_are_one_command_each() {
    let redis = Redis::start();
    let rule = (tokens(), FixedWindow::new(Quota::per_day(100)));
    let limiter = RateLimiter::new(rule, redis.store_with_prefix("t"));
    let hold = || redis.wait(limiter.hold("bob", 3)).unwrap().unwrap();
    // The first ones load the scripts.
    let held = hold();
    redis.wait(async { held.settle(0).await }).unwrap();
    redis.ask::<()>("CONFIG", &[b"RESETSTAT"]);
    for spent in [1, 0, 2] {
        let held = hold();
        redis.wait(async { held.settle(spent).await }).unwrap();
        // It is settled already: this does nothing.
        redis.wait(async { held.settle(3).await }).unwrap();
    }
    let calls = redis.calls();
    let called = calls.iter().find(|call| call.0 == "evalsha").unwrap().1;
    assert_eq!(called, 6, "{calls:?}");
    assert_eq!(redis.wait(limiter.peek("bob")).unwrap().remaining(), 7);
    assert_eq!(redis.wait(redis.server().keys_without_ttl("t")), [""; 0]);
}

#[test]
fn a_limit_that_does_not_hold_asks_twice_only_while_others_hold() {
    let redis = Redis::start();
    let holds = RateLimiter::new(tokens(), redis.store_with_prefix("t"));
    let plain = TokenBucket::new(Quota::per_day(10));
    let plain = RateLimiter::new(plain, redis.store_with_prefix("t"));
    let asked = || {
        redis.ask::<()>("CONFIG", &[b"RESETSTAT"]);
        redis.wait(plain.check("bob")).unwrap();
        let calls = redis.calls();
        calls.iter().find(|call| call.0 == "evalsha").unwrap().1
    };
    // The first ones load the scripts.
    asked();
    let held = redis.wait(holds.hold("bob", 3)).unwrap().unwrap();
    asked();
    assert_eq!(asked(), 2);
    redis.wait(async { held.settle(0).await }).unwrap();
    assert_eq!(asked(), 1);
    assert_eq!(redis.wait(plain.peek("bob")).unwrap().remaining(), 6);
}

#[test]
fn a_hold_that_nobody_waits_for_any_more_holds_nothing() {
    let redis = Redis::start();
    let limiter = RateLimiter::new(tokens(), redis.store_with_prefix("t"));
    let limits = EachOf((tokens(), FixedWindow::new(Quota::per_day(10)), tokens()));
    let of_several = RateLimiter::new(limits, redis.store_with_prefix("u"));
    let keys = EachOf((Some("bob"), None::<&str>, Some("bob")));
    let in_flight = RateLimiter::new(InFlight::new(10), redis.store_with_prefix("v"));
    macro_rules! is_dropped {
        ($limiter:expr, $key:expr) => {
            redis.wait(async {
                // The script is loaded.
                let held = $limiter.hold($key, 1).await.unwrap().unwrap();
                held.settle(0).await.unwrap();
                redis.server().stop_process();
                let asked = $limiter.hold($key, 7);
                let asked = tokio::time::timeout(Duration::from_millis(50), asked).await;
                assert!(asked.is_err(), "it waits for Redis");
                redis.server().continue_process();
                until("what it held", async || {
                    ($limiter.peek($key).await.ok()?.remaining() == 10).then_some(())
                })
                .await;
            });
        };
    }
    is_dropped!(limiter, "bob");
    is_dropped!(of_several, &keys);
    is_dropped!(in_flight, "bob");
}

#[test]
fn each_of_several_keys_is_held_and_settled() {
    let redis = Redis::start();
    let limits = EachOf((tokens(), FixedWindow::new(Quota::per_day(10)), tokens()));
    let limiter = RateLimiter::new(limits, redis.store_with_prefix("t"));
    let keys = EachOf((Some("bob"), Some("bob"), None::<&str>));
    let of = |keys: &_| redis.wait(limiter.peek(keys)).unwrap().remaining();
    let held = redis.wait(limiter.hold(&keys, 4)).unwrap().unwrap();
    assert_eq!(of(&keys), 6);
    redis.wait(async { held.settle(1).await }).unwrap();
    assert_eq!(of(&EachOf((Some("bob"), None, None))), 9);
    assert_eq!(of(&EachOf((None, Some("bob"), None))), 6);
}

/// Each number of a state is replaced by another one of it, or by any other: what is read makes
/// sense, and nothing panics.
#[test]
fn a_state_that_somebody_has_changed_is_an_error_or_decided_within_bounds() {
    fn is_robust<A: Scripted>(redis: &Redis, rule: A, prefix: &str) -> [u32; 2] {
        let clock = ManualClock::at(Timestamp::from_micros(START));
        let store = RedisStore::builder(redis.client().clone()).prefix(prefix);
        let store = store.clock(clock.clone());
        // This is not about time: a busy machine may be slow.
        let store = store.deadline(Duration::from_secs(20)).build();
        let (key, mut ended) = ("bob".to_owned(), [0, 0]);
        let hold = |cost| {
            redis.wait(
                Store::<A, String>::decide(&store, &rule, &key, store::Ask::Charge(cost)).wait(),
            )
        };
        let mut held = Vec::new();
        for turn in 0..4 {
            clock.set(Timestamp::from_micros(START + 60 * turn));
            held.push(hold(1).unwrap().snapshot);
        }
        let keys = redis.keys(prefix);
        let state: bytes::Bytes = redis.ask("GET", &[&keys[0]]);
        let mut random = Rng::with_seed(7);
        let mut next = |below: usize| random.usize(..below);
        for turn in 0..400 {
            clock.set(Timestamp::from_micros(
                START + 180 + turn * (next(9) as u64),
            ));
            let mut changed = state.to_vec();
            let slots = (state.len() - 1) / 8;
            for _ in 0..=next(2) {
                let (at, other) = (9 + 8 * next(slots - 1), 1 + 8 * next(slots));
                let number = f64::from_le_bytes(state[other..other + 8].try_into().unwrap());
                let value = match next(6) {
                    0 => 0.0,
                    1 => number + 1.0,
                    2 => START as f64 + next(400) as f64,
                    3 => next(20) as f64,
                    4 => (1_u64 << (30 + next(28))) as f64,
                    _ => number,
                };
                changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            redis.ask::<()>("SET", &[&keys[0], &changed, b"PX", b"60000"]);
            let receipt = &held[next(held.len())];
            let spent = next(4) as u32;
            let settled = redis.wait(async {
                Store::<A, String>::change(
                    &store,
                    &rule,
                    &key,
                    Change::End(receipt, Ending::Settled { held: 1, spent }),
                )
                .wait()
                .await
            });
            let verdict = settled.and_then(|()| hold(1));
            match verdict {
                Ok(verdict) => {
                    let decision = rule.decision_of(&verdict.snapshot);
                    assert!(decision.remaining() <= decision.limit(), "{decision:?}");
                    ended[0] += 1;
                }
                Err(error) => {
                    assert_eq!(
                        error.kind(),
                        tollgate::StoreErrorKind::InvalidInput,
                        "{error:?}"
                    );
                    ended[1] += 1;
                }
            }
            redis.ask::<()>("SET", &[&keys[0], &state, b"PX", b"60000"]);
        }
        ended
    }
    let redis = Redis::start();
    let quota = Quota::new(9, Duration::from_micros(300));
    let at_most = Duration::from_micros(100);
    let [read, refused] = [
        is_robust(
            &redis,
            TokenBucket::new(quota).settled().held_at_most(at_most),
            "a",
        ),
        is_robust(
            &redis,
            FixedWindow::new(quota).settled().held_at_most(at_most),
            "b",
        ),
        is_robust(
            &redis,
            SlidingWindow::new(quota).settled().held_at_most(at_most),
            "c",
        ),
        is_robust(
            &redis,
            SlidingLog::new(quota).settled().held_at_most(at_most),
            "d",
        ),
    ]
    .into_iter()
    .fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    assert!(read > 100 && refused > 20, "{read} read, {refused} refused");
}
