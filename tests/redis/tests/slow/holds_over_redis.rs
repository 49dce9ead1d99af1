//! Units that are held over Redis and settled: every field is as the pure rule says.

use std::time::Duration;

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{
    EachOf, Quota, RateLimiter, Timestamp,
    algorithm::*,
    clock::ManualClock,
    store::{self, Change, RedisStore, Store},
};
use tollgate_algorithms::for_every_additive;
use tollgate_properties::{
    alike::{self, Story},
    call::Ending,
    history::{History, Op, any_history_with_debits},
    model::*,
    numbers::{Held, held, of_one_shape},
    subject::Subject,
};
use tollgate_redis_tests::{Redis, comes, redis_decides_as_the_rule};

const HISTORIES: u32 = 600;
const START: u64 = 1_000_000;

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Every algorithm whose units can be held, and tuples of them and others. Of their models nothing
/// matters but the spans.
pub(crate) fn every_limit(held: Held) -> Vec<Subject> {
    every_limit_that(true, held)
}

/// The same, which hold what they admit, or charge it at once, as a check by hand does.
fn every_limit_that(holds: bool, Held { numbers, at_most }: Held) -> Vec<Subject> {
    fn that<A: Additive>(holds: bool, settled: Settled<A>) -> Settled<A> {
        if holds { settled } else { settled.unheld() }
    }
    let (quota, burst, precision) = (numbers.quota(), numbers.burst, numbers.precision());
    let held = micros(at_most);
    let spans = || [at_most, numbers.period].map(|span| sliding_log(numbers.units, span));
    let mut all = Vec::new();
    for_every_additive!(quota, burst, precision, |name, rule| {
        let settled = rule.named("n").settled().held_at_most(held);
        all.push(Subject::over_redis(name, that(holds, settled), spans()))
    });
    let bucket = |name| {
        let bucket = TokenBucket::new(quota).named(name).settled();
        that(holds, bucket.held_at_most(held))
    };
    let log = |name| {
        let log = SlidingLog::new(quota).named(name).settled();
        that(holds, log.held_at_most(held))
    };
    let window = |name| FixedWindow::new(quota).named(name);
    let gap = MinInterval::new(micros(2)).named("i");
    let queue = LeakyBucket::new(Quota::new(9, micros(5)))
        .queue()
        .named("q");
    let requests = FixedWindow::new(quota).named("n").per_request().settled();
    let requests = that(holds, requests.held_at_most(held));
    let triple = (log("n"), bucket("m"), queue);
    let shadow = (window("m"), bucket("n").shadow());
    all.extend([
        Subject::over_redis("requests", requests, spans()),
        Subject::over_redis("(bucket, interval)", (bucket("n"), gap), spans()),
        Subject::over_redis("(window, log)", (window("n"), log("m")), spans()),
        Subject::over_redis("(window, shadow)", shadow, spans()),
        Subject::over_redis("(log, bucket, queue)", triple, spans()),
    ]);
    all
}

/// A history, the plan of each of its steps, and how requests end.
type Happened = (History, Vec<u8>, Vec<Option<(prop::sample::Index, Ending)>>);

fn happened() -> impl Strategy<Value = Happened> {
    let turns = prop::collection::vec(any::<u8>(), 80);
    let ending = prop_oneof![
        4 => (0..=9_u8).prop_map(Ending::Settled),
        1 => Just(Ending::Over),
    ];
    (any_history_with_debits(), turns, alike::endings(ending))
}

/// Every decision of these plans, which share a state, is that of the rule.
pub(crate) fn is_the_pure_rules(
    redis: &Redis,
    plans: &[Subject],
    (history, turns, endings): &Happened,
) -> TestCaseResult {
    let mut history = history.clone();
    let (name, is_alone) = (plans[0].name, plans.len() == 1);
    if !is_alone && (name.contains("log") || name.contains("buckets")) {
        // If a generation has ended, a look at a log writes that down for the next plan.
        history.steps.retain(|step| !matches!(step.op, Op::Peek));
    }
    let story = Story {
        history: &history,
        turns,
        endings,
        steps_back: false,
        // Who is admitted, and would be refused in shadow, spends in Redis what has ended there, by
        // the numbers of its plan; in memory it leaves that to the next.
        shadows: is_alone,
    };
    redis_decides_as_the_rule(redis, plans, &story)
}

#[test]
fn holds_and_settlements_are_the_pure_rules_in_every_field() {
    let redis = Redis::start();
    let values = || (held(0..=6), happened());
    redis.for_all(HISTORIES, values, |(held, happened)| {
        let mut all = every_limit(held).into_iter();
        all.try_for_each(|limit| is_the_pure_rules(&redis, &[limit], &happened))
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn a_check_of_a_limit_that_holds_charges_at_once_as_the_pure_rule_does_in_every_field() {
    let redis = Redis::start();
    let values = || (held(0..=6), any_history_with_debits());
    redis.for_all(HISTORIES / 4, values, |(held, history)| {
        // Nobody can settle it.
        let happened = (history, vec![0], vec![None]);
        let mut all = every_limit_that(false, held).into_iter();
        all.try_for_each(|limit| is_the_pure_rules(&redis, &[limit], &happened))
    });
}

#[test]
fn plans_that_hold_in_turn_are_the_pure_rules() {
    let redis = Redis::start();
    let values = || ([held(0..=6), held(0..=6)], any::<bool>(), happened());
    redis.for_all(HISTORIES, values, |(mut plans, are_alike, happened)| {
        // Buckets of one name share a state whatever their periods are, windows do not.
        if are_alike {
            let alike = of_one_shape(plans.map(|plan| plan.numbers).into());
            (plans.iter_mut().zip(alike)).for_each(|(plan, numbers)| plan.numbers = numbers);
        }
        let [first, second] = plans.map(every_limit);
        for both in first.into_iter().zip(second) {
            let plans = [both.0, both.1];
            // Of another shape it would be another state.
            if plans[0].bucket.policy_id() == plans[1].bucket.policy_id() {
                is_the_pure_rules(&redis, &plans, &happened)?;
            }
        }
        Ok(())
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn capacities_near_the_end_of_exact_numbers_are_the_pure_rules() {
    let redis = Redis::start();
    let most = (1 << 53) - (1 << 32);
    let day = |units| Quota::new(units, Duration::from_secs(86_400));
    let values = || (50_000..=104_000_u64, 0..9_u64, happened());
    redis.for_all(HISTORIES / 4, values, |(units, less, happened)| {
        let span = || [sliding_log(9, 40)];
        let bucket = |units| {
            let bucket = TokenBucket::new(day(units)).named("n").settled();
            Subject::over_redis("bucket", bucket, span())
        };
        let window = |units| {
            let window = FixedWindow::new(day(units)).named("n").settled();
            Subject::over_redis("window", window, span())
        };
        is_the_pure_rules(&redis, &[units, units - less].map(bucket), &happened)?;
        is_the_pure_rules(&redis, &[most - less, most].map(window), &happened)
    });
}

#[derive(Debug, Clone, Copy)]
enum Ask {
    Hold(u32),
    /// One of the holds, and what was spent of it, in quarters.
    Settle(usize, u32),
    Debit(u32),
    Refund(u32),
    Reset,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    after: u64,
    ask: Ask,
    /// Whether the limit that holds asks, or the one that does not.
    holds: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![8 => 0..=4_u64, 2 => 0..=40_u64];
    let ask = prop_oneof![
        12 => (0..=5_u32).prop_map(Ask::Hold),
        1 => Just(Ask::Hold(u32::MAX)),
        9 => (0..8_usize, 0..=9_u32).prop_map(|(which, quarters)| Ask::Settle(which, quarters)),
        2 => (1..=9_u32).prop_map(Ask::Debit),
        1 => (1..=5_u32).prop_map(Ask::Refund),
        1 => Just(Ask::Reset),
    ];
    let step = (after, ask, any::<bool>());
    let step = step.prop_map(|(after, ask, holds)| Step { after, ask, holds });
    prop::collection::vec(step, 1..40)
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

/// Plays the steps with a limit that holds and the same one that does not.
fn is_one_state<H: Scripted, P: Scripted>(
    redis: &Redis,
    (holds, plain): (H, P),
    steps: &[Step],
) -> TestCaseResult {
    assert_eq!(holds.policy_id(), plain.policy_id());
    let clock = ManualClock::at(Timestamp::from_micros(START));
    let (store, key) = (redis.store(clock.clone()), redis.new_key());
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
        now += step.after;
        let at = Timestamp::from_micros(now);
        clock.set(at);
        match (step.ask, step.holds) {
            (Ask::Hold(cost), true) => {
                let (admitted, ours) = holds.step(&mut state.clone(), cost, at);
                let theirs = charged(redis, (&store, &holds, &key), cost);
                let [told, should] = [&theirs, &ours].map(|it| holds.decision_of(it));
                prop_assert_eq!(told, should, "{}: {:?}", turn, step);
                if admitted && cost > 0 {
                    holds.step(&mut state, cost, at);
                    receipts.push((ours, theirs, cost));
                }
            }
            (Ask::Hold(cost), false) => {
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
                let settled = tollgate::algorithm::Ending::Settled { held, spent };
                holds.end(&mut state, &ours, settled, at);
                change!(&holds, Change::End(&admission, settled));
            }
            (Ask::Debit(units), is_held) => {
                KeyLimit::debit(&holds, &mut state, units.into(), at);
                match is_held {
                    true => change!(&holds, Change::Debit(units)),
                    false => change!(&plain, Change::Debit(units)),
                }
            }
            (Ask::Refund(cost), is_held) => {
                KeyLimit::refund(&holds, &mut state, cost, at);
                match is_held {
                    true => change!(&holds, Change::Refund(cost)),
                    false => change!(&plain, Change::Refund(cost)),
                }
            }
            (Ask::Reset, _) => {
                state = KeyLimit::fresh(&holds, Timestamp::default());
                change!(&plain, Change::Reset);
            }
            (Ask::Settle(..), _) => {}
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
            let (quota, burst, precision) = (numbers.quota(), numbers.burst, numbers.precision());
            for_every_additive!(quota, burst, precision, |_name, rule| {
                let holds = rule.clone().settled().held_at_most(micros(at_most));
                is_one_state(&redis, (holds, rule), &steps)?
            });
            let bucket = TokenBucket::new(quota);
            let log = SlidingLog::new(quota);
            let queue = LeakyBucket::new(Quota::new(9, micros(5))).queue();
            let holds = bucket.clone().settled().held_at_most(micros(at_most));
            let tuples = (
                (holds, log.clone(), queue.clone()),
                (bucket.clone(), log.clone(), queue.clone()),
            );
            is_one_state(&redis, tuples, &steps)?;
            let requests = log.clone().per_request();
            let holds = requests.clone().settled().held_at_most(micros(at_most));
            is_one_state(&redis, (holds, requests), &steps)?;
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
    assert_eq!(redis.scripts_run(), 6);
    assert_eq!(redis.wait(limiter.peek("bob")).unwrap().remaining(), 7);
    assert_eq!(redis.wait(redis.server().keys_without_ttl("t")), [""; 0]);
}

#[test]
fn a_limit_that_does_not_hold_asks_twice_once_when_it_meets_what_others_hold() {
    let redis = Redis::start();
    let holds = RateLimiter::new(tokens(), redis.store_with_prefix("t"));
    let plain = TokenBucket::new(Quota::per_day(10));
    let plain = RateLimiter::new(plain, redis.store_with_prefix("t"));
    let asked = || {
        redis.ask::<()>("CONFIG", &[b"RESETSTAT"]);
        redis.wait(plain.check("bob")).unwrap();
        redis.scripts_run()
    };
    // The first ones load the scripts.
    asked();
    assert_eq!(asked(), 1);
    let held = redis.wait(holds.hold("bob", 3)).unwrap().unwrap();
    // Once in vain, once to load the other script, and once by it.
    assert_eq!(asked(), 3);
    assert_eq!(asked(), 1);
    redis.wait(async { held.settle(0).await }).unwrap();
    assert_eq!(asked(), 1);
    assert_eq!(redis.wait(plain.peek("bob")).unwrap().remaining(), 5);
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
                let remaining = async || $limiter.peek($key).await.ok().map(|it| it.remaining());
                comes("what it held", async || remaining().await == Some(10)).await;
            });
        };
    }
    is_dropped!(limiter, "bob");
    is_dropped!(of_several, &keys);
    is_dropped!(in_flight, "bob");
}
