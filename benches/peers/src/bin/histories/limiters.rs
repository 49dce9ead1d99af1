//! The limiters that hold a rate and a burst, each with one key and with time that is turned by
//! hand where it can be.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant, SystemTime},
};

use ::{ratelimit::TryWaitError, skp_ratelimit::GCRA};
use governor::{clock::Clock as _, middleware::NoOpMiddleware, state::keyed::DashMapStateStore};
use tollgate::{
    Quota, RateLimiter, Timestamp,
    algorithm::{Algorithm, TokenBucket},
    clock::ManualClock,
    store::LocalStore,
};
use tollgate_peers::{
    limit::Limit,
    peers::{self, AxumGcra, SkpRatelimit, Telling, ThrottleKit, Throttlecrab},
    ready,
};

use crate::subject::{BEGINNING, Bucket, RealTime, Subject, ToldTime, yes_or_no};

/// How a limiter of a bucket is made.
pub(crate) type Make = fn(Bucket) -> Box<dyn Subject>;

/// Those with a rate and a burst: what they are called, and how they are made.
pub(crate) const BUCKETS: [(&str, Make); 8] = [
    ("tollgate", tollgate_bucket),
    ("governor", governor),
    ("axum_gcra", axum_gcra),
    ("throttlecrab", throttlecrab),
    ("ratelimit", ratelimit),
    ("leaky-bucket", leaky_bucket),
    ("throttle-kit", throttle_kit),
    ("skp-ratelimit", skp_ratelimit),
];

impl From<Bucket> for Limit {
    fn from(bucket: Bucket) -> Self {
        Self {
            interval: bucket.interval(),
            burst: bucket.burst,
        }
    }
}

fn tollgate_bucket(bucket: Bucket) -> Box<dyn Subject> {
    let quota = Quota::new(bucket.units.into(), bucket.period);
    tollgate(TokenBucket::new(quota).burst(bucket.burst.into()))
}

/// tollgate by any algorithm.
pub(crate) fn tollgate<A: Algorithm>(algorithm: A) -> Box<dyn Subject> {
    let stamp = |time: Duration| Timestamp::from_micros(time.as_micros() as u64);
    let clock = ManualClock::at(stamp(BEGINNING));
    let store = LocalStore::builder().clock(clock.clone()).build();
    let limiter = RateLimiter::new(algorithm, store);
    ToldTime::boxed(move |now, cost| {
        clock.set(stamp(now));
        let decision = ready(limiter.check_cost("key", cost)).expect("a store in memory");
        Some(match decision.is_admitted() {
            true => Ok(()),
            false => Err(decision.retry_after()),
        })
    })
}

/// governor's time, in nanoseconds.
#[derive(Clone, Default)]
struct SetClock(Arc<AtomicU64>);

impl governor::clock::Clock for SetClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(SeqCst))
    }
}

fn governor(bucket: Bucket) -> Box<dyn Subject> {
    let clock = SetClock::default();
    let set = |clock: &SetClock, now: Duration| clock.0.store(now.as_nanos() as u64, SeqCst);
    set(&clock, BEGINNING);
    let quota = peers::governor::quota(bucket.into());
    let limiter = governor::RateLimiter::<_, _, _, NoOpMiddleware<Duration>>::new(
        quota,
        DashMapStateStore::<&str>::default(),
        clock.clone(),
    );
    ToldTime::boxed(move |now, cost| {
        set(&clock, now);
        assert_eq!(clock.now(), now);
        let cost = NonZeroU32::new(cost).expect("not zero");
        Some(match limiter.check_key_n(&"key", cost) {
            Ok(answer) => answer.map_err(|until| Some(until.wait_time_from(now))),
            // More than ever fits.
            Err(_) => Err(None),
        })
    })
}

fn axum_gcra(bucket: Bucket) -> Box<dyn Subject> {
    let limiter = AxumGcra::new(bucket.into());
    let since = Instant::now();
    ToldTime::boxed(move |now, cost| (cost == 1).then(|| limiter.ask_at("key", since + now)))
}

fn throttlecrab(bucket: Bucket) -> Box<dyn Subject> {
    let limiter = Throttlecrab::new(bucket.into());
    ToldTime::boxed(move |now, cost| {
        let now = SystemTime::UNIX_EPOCH + now;
        Some(limiter.ask_at("key", cost.into(), now))
    })
}

/// ratelimit's time, in nanoseconds.
impl ::ratelimit::Clock for SetClock {
    fn elapsed(&self) -> Duration {
        self.now()
    }
}

fn ratelimit(bucket: Bucket) -> Box<dyn Subject> {
    let clock = SetClock::default();
    clock.0.store(BEGINNING.as_nanos() as u64, SeqCst);
    let limiter = ::ratelimit::Builder::with_clock(bucket.units.into(), clock.clone())
        .period(bucket.period)
        .max_tokens(bucket.burst.into())
        .initial_available(bucket.burst.into())
        .build()
        .expect("valid numbers");
    ToldTime::boxed(move |now, cost| {
        clock.0.store(now.as_nanos() as u64, SeqCst);
        Some(match limiter.try_wait_n(cost.into()) {
            Ok(()) => Ok(()),
            Err(TryWaitError::Insufficient(wait)) => Err(Some(wait)),
            Err(_) => Err(None),
        })
    })
}

/// In a runtime whose time stands still.
fn leaky_bucket(bucket: Bucket) -> Box<dyn Subject> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    // It knows whole milliseconds, and how many units come back after each: the fewest that are
    // exact.
    let units_in = |millis: u64| u128::from(millis) * u128::from(bucket.units);
    let exact = |millis: &u64| units_in(*millis).is_multiple_of(bucket.period.as_millis());
    let millis = (1..).find(exact).expect("the period at the latest");
    let refill = units_in(millis) / bucket.period.as_millis();
    let limiter = runtime.block_on(async {
        ::leaky_bucket::RateLimiter::builder()
            .interval(Duration::from_millis(millis))
            .refill(refill as usize)
            .max(bucket.burst as usize)
            .initial(bucket.burst as usize)
            .build()
    });
    let mut last = BEGINNING;
    ToldTime::boxed(move |now, cost| {
        runtime.block_on(async {
            tokio::time::advance(now.saturating_sub(last)).await;
            last = now;
            Some(yes_or_no(limiter.try_acquire(cost as usize)))
        })
    })
}

fn throttle_kit(bucket: Bucket) -> Box<dyn Subject> {
    let limiter = ThrottleKit::new(bucket.into());
    one_unit_only(limiter)
}

fn skp_ratelimit(bucket: Bucket) -> Box<dyn Subject> {
    let quota = ::skp_ratelimit::Quota::new(bucket.units.into(), bucket.period)
        .with_burst(bucket.burst.into());
    one_unit_only(SkpRatelimit::by(GCRA::new(), quota))
}

/// One that knows requests of one unit only, in real time.
pub(crate) fn one_unit_only(limiter: impl Telling + 'static) -> Box<dyn Subject> {
    RealTime::boxed(move |cost| (cost == 1).then(|| limiter.ask("key")))
}
