//! Every algorithm once more, slow and plain: the list of all, the bound of each, and a model of
//! each. What a new algorithm needs for its tests is in this file: a line, a formula, a model.
//!
//! An algorithm with a line here is in all tests and benches that `tests/README.md` names at its
//! end.
//!
//! A model keeps what was admitted, and when, in plain lists and exact fractions. It only says
//! whether a cost is admitted at an instant, and what an admission changes. What a caller is told
//! follows from that by search, in `told.rs` of the properties.

mod model;
mod per_request;

use model::{Admitted, take_newest, take_oldest, units_of};
use per_request::per_request;

pub use model::{Bound, Counts, Fork, Model};

/// Calls the macro `$then` with all algorithms, each as `"name", how it is made, its slow model;`.
///
/// They are made from four variables: a quota, a burst, a precision that divides the period, and an
/// interval. The model takes the same by name; times are in microseconds. A file that calls it
/// imports `tollgate::algorithm::*`, so that a new algorithm needs no further line there.
#[macro_export]
macro_rules! every_algorithm {
    ($then:ident, $quota:ident, $burst:ident, $precision:ident, $interval:ident) => {
        $crate::listed! { all_listed $then $quota, $burst, $precision, $interval }
    };
}

/// Calls the macro `$then` with the additive algorithms alone, whose units can be held. No interval
/// is needed for them.
#[macro_export]
macro_rules! every_additive {
    ($then:ident, $quota:ident, $burst:ident, $precision:ident) => {
        $crate::listed! { additive_listed $then $quota, $burst, $precision, no_interval }
    };
}

/// Runs the body for each of all algorithms, made from the same four variables: `|name, rule| …`.
#[macro_export]
macro_rules! for_every_algorithm {
    ($quota:ident, $burst:ident, $precision:ident, $interval:ident, $($run:tt)+) => {
        $crate::listed! { all_listed [$($run)+] $quota, $burst, $precision, $interval }
    };
}

/// The same for the additive algorithms alone.
#[macro_export]
macro_rules! for_every_additive {
    ($quota:ident, $burst:ident, $precision:ident, $($run:tt)+) => {
        $crate::listed! { additive_listed [$($run)+] $quota, $burst, $precision, no_interval }
    };
}

/// The list. Before an algorithm that is `Additive` stands that word.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! listed {
    ($which:ident $then:tt $quota:ident, $burst:ident, $precision:ident, $interval:ident) => {
        $crate::$which! {
            $then ($quota, $burst, $precision, $interval) []
            additive "fixed window", FixedWindow::new($quota), fixed_window(units, period);
            additive "window from first request", FixedWindow::new($quota).from_first_request(), window_from_first_request(units, period);
            additive "sliding log", SlidingLog::new($quota), sliding_log(units, period);
            additive "sliding window", SlidingWindow::new($quota), sliding_window(units, period);
            additive "sliding buckets", SlidingBuckets::new($quota, $precision), sliding_buckets(units, period, precision);
            additive "strict buckets", SlidingBuckets::new($quota, $precision).strict(), strict_buckets(units, period, precision);
            additive "token bucket", TokenBucket::new($quota), debt_bucket(units, period, units);
            additive "token bucket with burst", TokenBucket::new($quota).burst($burst), debt_bucket(units, period, burst);
            additive "leaky bucket", LeakyBucket::new($quota).capacity($burst), debt_bucket(units, period, burst);
            "leaky bucket queue", LeakyBucket::new($quota).capacity($burst).queue(), queue(units, period, burst);
            "leaky bucket that waits", LeakyBucket::new($quota).wait_at_most($interval), wait_at_most(units, period, units, interval);
            "token bucket that waits", TokenBucket::new($quota).burst($burst).wait_at_most($interval), wait_at_most(units, period, burst, interval);
            additive "gcra", Gcra::new($quota).burst($burst), debt_bucket(units, period, burst);
            "min interval", MinInterval::new($interval), min_interval(interval);
            "token bucket per request", TokenBucket::new($quota).burst($burst).per_request(), debt_bucket_per_request(units, period, burst);
            "sliding log per request", SlidingLog::new($quota).per_request(), sliding_log_per_request(units, period);
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! all_listed {
    (
        $then:ident $given:tt []
        $($(additive)? $name:literal, $algorithm:expr, $model:ident $numbers:tt;)+
    ) => {
        $then! { $given $($name, $algorithm, $model $numbers;)+ }
    };
    (
        [|$name:ident, $rule:ident| $body:expr] $given:tt []
        $($(additive)? $called:literal, $algorithm:expr, $model:ident $numbers:tt;)+
    ) => {
        $({
            let ($name, $rule) = ($called, $algorithm);
            $body;
        })+
    };
}

/// One line after the other: those that are kept stand in the brackets.
#[doc(hidden)]
#[macro_export]
macro_rules! additive_listed {
    ($then:ident $given:tt [$($kept:tt)+]) => {
        $then! { $given $($kept)+ }
    };
    ([$($run:tt)+] $given:tt [$($kept:tt)+]) => {
        $crate::all_listed! { [$($run)+] $given [] $($kept)+ }
    };
    (
        $then:tt $given:tt [$($kept:tt)*]
        additive $name:literal, $algorithm:expr, $model:ident $numbers:tt; $($others:tt)*
    ) => {
        $crate::additive_listed! {
            $then $given [$($kept)* $name, $algorithm, $model $numbers;] $($others)*
        }
    };
    (
        $then:tt $given:tt $kept:tt
        $name:literal, $algorithm:expr, $model:ident $numbers:tt; $($others:tt)*
    ) => {
        $crate::additive_listed! { $then $given $kept $($others)* }
    };
}

/// The printed bounds: the most units in any half-open span (t−P, t] of one period. `n` is the
/// quota's units, `period` its microseconds.
///
/// `bounds.rs` of the properties reaches each of them by exhaustive search in small numbers;
/// `invariants.rs` never passes them with random ones.
pub mod formulas {
    use super::{greatest_common_divisor, rounded_up};

    /// 2n; n where the window is a single microsecond, since then the span is that window.
    pub fn fixed_window(n: i128, period: i128) -> i128 {
        if period == 1 { n } else { 2 * n }
    }

    /// 2n − 1: the window was opened by a unit that the span has left behind.
    pub fn window_from_first_request(n: i128, period: i128) -> i128 {
        if period == 1 || n == 0 { n } else { 2 * n - 1 }
    }

    /// n.
    pub fn sliding_log(n: i128) -> i128 {
        n
    }

    /// n + ⌊n(P−2)/P⌋, and n where the window is a single microsecond.
    pub fn sliding_window(n: i128, period: i128) -> i128 {
        if period == 1 {
            n
        } else {
            n + n * (period - 2) / period
        }
    }

    /// 2n; n where a sub-counter is a single microsecond, since then nothing is rounded.
    pub fn sliding_buckets(n: i128, precision: i128) -> i128 {
        if precision == 1 { n } else { 2 * n }
    }

    /// The burst, and what refills between the first and the last instant of the span: n(P−1)/P,
    /// rounded down; with ticks of T µs what refills in ⌈(P−1)/T⌉ of them, which is n if T divides
    /// the period. Nothing if n or the burst is 0.
    pub fn debt_bucket(burst: i128, n: i128, period: i128, tick: i128) -> i128 {
        if n == 0 || burst == 0 {
            return 0;
        }
        let ticks = rounded_up(period - 1, tick);
        burst + n * tick * ticks / period
    }

    /// Whether the burst (or a queue's capacity) has room for what refills in a microsecond and for
    /// the largest fraction of a unit. Then nothing is lost, and the bounds of [`debt_bucket`] and
    /// [`queue`] are reached.
    ///
    /// A burst of 1 has it only if the period is a multiple of n; otherwise it is a
    /// [`min_interval`] of ⌈P/n⌉.
    pub fn holds_what_refills(burst: i128, n: i128, period: i128) -> bool {
        let divisor = greatest_common_divisor(n, period);
        let (paid, unit) = (n / divisor, period / divisor);
        n > 0 && burst * unit >= paid + unit - 1
    }

    /// n + c − 1 by scheduled time of release, where c is the largest cost. With ticks of T µs the
    /// span touches ⌈(P−1)/T⌉ + 1 of them (P if T is 1), and a request that goes through at once
    /// may do so at the end of the first.
    pub fn queue(n: i128, period: i128, tick: i128, largest_cost: i128) -> i128 {
        if n == 0 || largest_cost == 0 {
            return 0;
        }
        let ticks = rounded_up(period - 1, tick) + 1;
        rounded_up(n * tick * ticks, period) - 1 + largest_cost
    }

    /// Like a [`queue`] in which every cost is at least the burst, whatever the wait:
    /// max(burst, c) + n − 1.
    ///
    /// With more than a unit per microsecond it is more than the max(burst, c) + ⌊n(P−1)/P⌋ of a
    /// bucket that refuses: a release is rounded up to the next microsecond, and what is paid off
    /// in the rest of it is not lost. With 2 in 1 µs, a burst of 1 and a wait of 1 µs, of three at
    /// 0 two leave at 1.
    pub fn wait_at_most(
        n: i128,
        period: i128,
        tick: i128,
        burst: i128,
        largest_cost: i128,
    ) -> i128 {
        if burst == 0 || largest_cost == 0 {
            return 0;
        }
        queue(n, period, tick, burst.max(largest_cost))
    }

    /// ⌈P/d⌉ requests.
    pub fn min_interval(interval: i128, period: i128) -> i128 {
        rounded_up(period, interval)
    }
}

/// An algorithm, as the page and the reports of a replay show it.
#[derive(Debug)]
pub struct Shown {
    /// What a file calls it.
    pub name: &'static str,
    /// The printed bound.
    pub bound: fn(&Numbers<'_>) -> Printed,
    /// Why there is no room for a request. A field in braces stands for its value, and `{period}`
    /// for that of the quota.
    pub refusal: fn(&Numbers<'_>) -> &'static str,
    /// Its rows where all algorithms are shown; none, where it is the rule of another one.
    pub rows: &'static [Row],
}

/// An algorithm with what it may be besides, where all algorithms are shown.
#[derive(Debug)]
pub struct Row {
    /// What it is called there.
    pub called: &'static str,
    /// The fields that it has beside those that it needs, as JSON.
    pub with: &'static str,
    /// The name of its own picture, if it has one.
    pub picture: Option<&'static str>,
}

const fn row(called: &'static str, with: &'static str, picture: Option<&'static str>) -> Row {
    Row {
        called,
        with,
        picture,
    }
}

/// What the formulas are asked with.
pub struct Numbers<'a> {
    /// The quota's units; 0 without a quota.
    pub n: i128,
    /// The quota's period in microseconds; 0 without a quota.
    pub period: i128,
    /// The burst or the capacity.
    pub burst: i128,
    /// The largest cost.
    pub cost: i128,
    /// Any field: a number, a span in microseconds, or 1 for `true`.
    pub field: &'a dyn Fn(&str) -> Option<i128>,
}

/// A bound, as the docs print it.
#[derive(Debug, Clone, Copy)]
pub struct Printed {
    /// How much in any span, if the numbers are not so large that time is counted in coarser
    /// ticks.
    pub most: Option<i128>,
    /// The length of the span in microseconds; 0 for what counts at an instant.
    pub span: i128,
    /// What is counted; `None`: what runs at the same instant.
    pub counts: Option<Counts>,
    /// The formula.
    pub formula: &'static str,
}

impl Numbers<'_> {
    fn has(&self, field: &str) -> bool {
        (self.field)(field).is_some()
    }

    fn in_a_period(&self, most: i128, counts: Counts, formula: &'static str) -> Printed {
        let (span, counts) = (self.period, Some(counts));
        Printed {
            most: Some(most),
            span,
            counts,
            formula,
        }
    }

    /// The bound of a bucket, if it counts time in microseconds.
    fn if_ticks_are_fine(&self, printed: Printed) -> Printed {
        let wait = (self.field)("wait-at-most").unwrap_or(0);
        // What holds leaves room for as much again, that may be owed.
        let room = if self.has("settled") { 2 } else { 1 };
        let largest = (self.burst * self.period + wait * self.n + self.n) * room;
        Printed {
            most: printed.most.filter(|_| largest <= 1 << 53),
            ..printed
        }
    }

    fn units(&self, most: i128, formula: &'static str) -> Printed {
        self.in_a_period(most, Counts::Units, formula)
    }

    fn of_a_bucket(&self) -> Printed {
        let (n, period, burst) = (self.n, self.period, self.burst);
        self.if_ticks_are_fine(match self.has("wait-at-most") {
            true => {
                let most = formulas::wait_at_most(n, period, 1, burst, self.cost);
                let formula = "max(burst, c) + n − 1, as released";
                self.in_a_period(most, Counts::Releases, formula)
            }
            false => {
                let most = formulas::debt_bucket(burst, n, period, 1);
                self.units(most, "burst + ⌊n(P−1)/P⌋")
            }
        })
    }

    fn why_a_bucket_refuses(&self) -> &'static str {
        if self.has("wait-at-most") {
            return "It would have to wait for longer than {wait-at-most}, as it leaves at {quota}.";
        }
        "What is missing comes back at {quota}, evenly."
    }
}

const fn shown(
    name: &'static str,
    bound: fn(&Numbers<'_>) -> Printed,
    refusal: fn(&Numbers<'_>) -> &'static str,
    rows: &'static [Row],
) -> Shown {
    Shown {
        name,
        bound,
        refusal,
        rows,
    }
}

const fn bucket(name: &'static str, rows: &'static [Row]) -> Shown {
    shown(
        name,
        |it| it.of_a_bucket(),
        |it| it.why_a_bucket_refuses(),
        rows,
    )
}

/// All that files can name.
#[rustfmt::skip]
pub const SHOWN: &[Shown] = &[
    bucket("token-bucket", &[
        row("token/leaky bucket, GCRA", "{}", Some("token_bucket")),
        row("… with a burst of 4", r#"{"burst": 4}"#, None),
        row("burst of 4, then waits", r#"{"burst": 4, "wait-at-most": "500ms"}"#, Some("wait_at_most")),
    ]),
    bucket("gcra", &[]),
    bucket("leaky-bucket", &[]),
    shown(
        "fixed-window",
        |it| match it.has("from-first-request") {
            true => it.units(formulas::window_from_first_request(it.n, it.period), "2n − 1"),
            false => it.units(formulas::fixed_window(it.n, it.period), "2n"),
        },
        |_| "The window has taken all of its quota; the next one is empty.",
        &[
            row("fixed window", "{}", Some("fixed_window")),
            row("… from first request", r#"{"from-first-request": true}"#, None),
        ],
    ),
    shown(
        "sliding-log",
        |it| it.units(formulas::sliding_log(it.n), "n"),
        |_| "What was admitted in the last {period} leaves no room until the oldest is as old.",
        &[row("sliding log", "{}", Some("sliding_log"))],
    ),
    shown(
        "sliding-buckets",
        |it| match it.has("strict") {
            true => it.units(formulas::sliding_log(it.n), "n"),
            false => {
                let precision = (it.field)("precision").unwrap_or(1);
                it.units(formulas::sliding_buckets(it.n, precision), "2n")
            }
        },
        |_| "The sub-counters of the last period leave no room until the oldest is dropped.",
        &[
            row("sliding buckets", "{}", Some("sliding_buckets")),
            row("… strict", r#"{"strict": true}"#, None),
        ],
    ),
    shown(
        "sliding-window",
        |it| it.units(formulas::sliding_window(it.n, it.period), "n + ⌊n(P−2)/P⌋"),
        |_| "This window's count and the part of the previous one that still counts leave no room.",
        &[row("sliding window", "{}", Some("sliding_window"))],
    ),
    shown(
        "leaky-bucket-queue",
        |it| {
            let most = formulas::queue(it.n, it.period, 1, it.cost);
            it.if_ticks_are_fine(it.in_a_period(most, Counts::Releases, "n + c − 1, as released"))
        },
        |_| "The queue is full; it moves on at {quota}.",
        &[row("queue", "{}", Some("leaky_bucket_queue"))],
    ),
    shown(
        "min-interval",
        |it| {
            let span = (it.field)("interval").unwrap_or(1);
            Printed {
                span,
                ..it.in_a_period(1, Counts::Requests, "⌈P/d⌉ requests, and P is d here")
            }
        },
        |_| "The last one was admitted less than {interval} ago.",
        &[row("min interval, 100 ms", "{}", Some("min_interval"))],
    ),
    shown(
        "in-flight",
        |it| Printed {
            most: (it.field)("requests"),
            span: 0,
            counts: None,
            formula: "n at any instant",
        },
        |_| "All places are taken by requests that still run.",
        &[row("4 in flight, 300 ms each", "{}", Some("in_flight"))],
    ),
];

// The fixed window.

#[derive(Debug, Clone)]
struct FixedWindow {
    n: i128,
    period: i128,
    from_first: bool,
    start: i128,
    admitted: Vec<Admitted>,
}

fn window(n: u64, period: u64, from_first: bool) -> Box<dyn Model> {
    Box::new(FixedWindow {
        n: n.into(),
        period: period.into(),
        from_first,
        start: 0,
        admitted: Vec::new(),
    })
}

/// Windows at the multiples of the period.
pub fn fixed_window(n: u64, period: u64) -> Box<dyn Model> {
    window(n, period, false)
}

/// Windows that open at the first unit, and close early if all units are given back.
pub fn window_from_first_request(n: u64, period: u64) -> Box<dyn Model> {
    window(n, period, true)
}

impl FixedWindow {
    fn is_running(&self, now: i128) -> bool {
        let is_open = !self.from_first || units_of(&self.admitted, |_| true) > 0;
        is_open && now < self.start + self.period
    }

    fn start_at(&self, at: i128) -> i128 {
        if self.from_first {
            at
        } else {
            at - at % self.period
        }
    }

    fn roll(&mut self, now: i128) {
        if !self.is_running(now) {
            self.admitted.clear();
            self.start = self.start_at(now.max(self.start));
        }
    }
}

impl Model for FixedWindow {
    fn forget(&mut self, at: i128) {
        self.admitted.clear();
        self.start = self.start_at(at);
    }

    fn limit(&self) -> i128 {
        self.n
    }

    fn span(&self) -> i128 {
        self.period
    }

    fn shape(&self) -> Vec<i128> {
        vec![self.period]
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        let running = self.is_running(now);
        cost == 0 || units_of(&self.admitted, |_| running) + cost <= self.n
    }

    fn charge(&mut self, cost: i128, now: i128) {
        self.roll(now);
        let at = now.max(self.start);
        self.admitted.push(Admitted { at, units: cost });
    }

    fn refund(&mut self, cost: i128, now: i128) {
        self.roll(now);
        take_newest(&mut self.admitted, cost, |_| true);
    }

    fn bound(&self, _largest_cost: i128) -> Bound {
        let formula = match self.from_first {
            true => formulas::window_from_first_request,
            false => formulas::fixed_window,
        };
        Bound::units(self.period, formula(self.n, self.period))
    }
}

// The sliding window of two counters.

#[derive(Debug, Clone)]
struct SlidingWindow {
    n: i128,
    period: i128,
    tick: i128,
    admitted: Vec<Admitted>,
    stamp: i128,
}

/// Two counters; ticks are the smallest power of ten that divides the period and keeps n·P below
/// 2^53.
pub fn sliding_window(n: u64, period: u64) -> Box<dyn Model> {
    let (n, period) = (i128::from(n), i128::from(period));
    let fits = |tick: &i128| period % tick == 0 && n * (period / tick) <= 1 << 53;
    let mut ticks = (0..=6).map(|exponent| 10_i128.pow(exponent));
    Box::new(SlidingWindow {
        n,
        period,
        tick: ticks.find(fits).expect("numbers that some tick can hold"),
        admitted: Vec::new(),
        stamp: 0,
    })
}

impl SlidingWindow {
    /// The units of the running window, those of the one before, and how many ticks of that are
    /// covered.
    fn counted(&self, now: i128) -> (i128, i128, i128) {
        let now = now.max(self.stamp);
        let running = now / self.period;
        let in_window =
            |window: i128| units_of(&self.admitted, |entry| entry.at / self.period == window);
        let covered = self.period / self.tick - now % self.period / self.tick;
        (in_window(running), in_window(running - 1), covered)
    }

    /// current + previous·covered + cost ≤ n, all times the ticks of a period.
    fn weighed(&self, now: i128) -> i128 {
        let (current, previous, covered) = self.counted(now);
        current * (self.period / self.tick) + previous * covered
    }
}

impl Model for SlidingWindow {
    fn forget(&mut self, at: i128) {
        self.admitted.clear();
        self.stamp = at;
    }

    fn limit(&self) -> i128 {
        self.n
    }

    fn span(&self) -> i128 {
        2 * self.period
    }

    fn shape(&self) -> Vec<i128> {
        vec![self.period]
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        let ticks = self.period / self.tick;
        cost == 0 || self.weighed(now) + cost * ticks <= self.n * ticks
    }

    fn charge(&mut self, cost: i128, now: i128) {
        self.stamp = now.max(self.stamp);
        self.admitted.push(Admitted {
            at: self.stamp,
            units: cost,
        });
    }

    /// Takes from the running window first, then from the one before.
    fn refund(&mut self, cost: i128, now: i128) {
        self.stamp = now.max(self.stamp);
        let (running, period) = (self.stamp / self.period, self.period);
        let left = take_newest(&mut self.admitted, cost, |entry| {
            entry.at / period == running
        });
        take_newest(&mut self.admitted, left, |entry| {
            entry.at / period == running - 1
        });
    }

    fn bound(&self, _largest_cost: i128) -> Bound {
        Bound::units(self.period, formulas::sliding_window(self.n, self.period))
    }
}

// The sliding log, and the sliding buckets, which are a log of coarse instants.

#[derive(Debug, Clone)]
struct Log {
    n: i128,
    period: i128,
    slot: i128,
    /// How long after its slot began an entry counts.
    counts_for: i128,
    most: i128,
    admitted: Vec<Admitted>,
    stamp: i128,
}

fn log(n: u64, period: u64, slot: u64, counts_for: u64, most: i128) -> Box<dyn Model> {
    Box::new(Log {
        n: n.into(),
        period: period.into(),
        slot: slot.into(),
        counts_for: counts_for.into(),
        most,
        admitted: Vec::new(),
        stamp: 0,
    })
}

/// Exact.
pub fn sliding_log(n: u64, period: u64) -> Box<dyn Model> {
    log(n, period, 1, period, formulas::sliding_log(n.into()))
}

/// The last P/precision sub-counters.
pub fn sliding_buckets(n: u64, period: u64, precision: u64) -> Box<dyn Model> {
    let most = formulas::sliding_buckets(n.into(), precision.into());
    log(n, period, precision, period, most)
}

/// One more sub-counter.
pub fn strict_buckets(n: u64, period: u64, precision: u64) -> Box<dyn Model> {
    log(n, period, precision, period + precision, n.into())
}

impl Log {
    fn slot(&self, now: i128) -> i128 {
        now - now % self.slot
    }

    /// The slot of now, or the stamp if that is later.
    fn effective(&self, now: i128) -> i128 {
        self.slot(now).max(self.stamp)
    }

    fn counts(&self, now: i128) -> impl Fn(&Admitted) -> bool + use<> {
        let (effective, counts_for) = (self.effective(now), self.counts_for);
        move |entry| entry.at + counts_for > effective
    }
}

impl Model for Log {
    fn forget(&mut self, at: i128) {
        self.admitted.clear();
        self.stamp = self.slot(at);
    }

    fn limit(&self) -> i128 {
        self.n
    }

    fn span(&self) -> i128 {
        self.counts_for
    }

    fn shape(&self) -> Vec<i128> {
        vec![self.period, self.slot]
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        cost == 0 || units_of(&self.admitted, self.counts(now)) + cost <= self.n
    }

    fn charge(&mut self, cost: i128, now: i128) {
        let at = self.effective(now);
        self.admitted.retain(self.counts(now));
        self.admitted.push(Admitted { at, units: cost });
        self.stamp = at;
    }

    fn refund(&mut self, cost: i128, now: i128) {
        let counts = self.counts(now);
        self.admitted.retain(&counts);
        take_oldest(&mut self.admitted, cost);
    }

    fn bound(&self, _largest_cost: i128) -> Bound {
        Bound::units(self.period, self.most)
    }
}

// Token bucket, leaky bucket and GCRA, as they are and where requests wait, and the leaky bucket
// as a queue.

#[derive(Debug, Clone)]
struct DebtBucket {
    n: i128,
    period: i128,
    /// The largest debt, in units of 1/P of a unit.
    capacity: i128,
    tick: i128,
    queue: Option<Queue>,
    /// In units of 1/P of a unit, so that a microsecond pays n of them.
    debt: i128,
    /// The beginning of the tick that the debt was last seen in.
    stamp: i128,
}

/// Requests wait.
#[derive(Debug, Clone, Copy)]
struct Queue {
    /// How many units go at once.
    burst: i128,
    bound: fn(n: i128, period: i128, tick: i128, burst: i128, largest_cost: i128) -> i128,
}

/// A debt that is paid off continuously.
pub fn debt_bucket(n: u64, period: u64, capacity: u64) -> Box<dyn Model> {
    build(n, period, capacity, 0, None)
}

/// The same debt, but an admitted request is delayed until what is owed before it is paid.
pub fn queue(n: u64, period: u64, capacity: u64) -> Box<dyn Model> {
    let queue = Queue {
        burst: 1,
        bound: |n, period, tick, _, largest_cost| formulas::queue(n, period, tick, largest_cost),
    };
    build(n, period, capacity, 0, Some(queue))
}

/// The same debt, but a request that comes on top of the burst is delayed, at most for so many
/// microseconds.
pub fn wait_at_most(n: u64, period: u64, burst: u64, wait: u64) -> Box<dyn Model> {
    let queue = Queue {
        burst: burst.into(),
        bound: formulas::wait_at_most,
    };
    build(n, period, burst, wait, Some(queue))
}

fn build(n: u64, period: u64, burst: u64, wait: u64, queue: Option<Queue>) -> Box<dyn Model> {
    let burst: i128 = if n == 0 { 0 } else { burst.into() };
    let wait = if burst == 0 { 0 } else { i128::from(wait) };
    let (n, period) = (i128::from(n), i128::from(period));
    let capacity = |tick: i128| burst * period + wait / tick * tick * n;
    let tick = tick(n, period, capacity);
    Box::new(DebtBucket {
        n,
        period,
        capacity: capacity(tick),
        tick,
        queue,
        debt: 0,
        stamp: 0,
    })
}

/// The smallest power of ten with which every number stays below 2^53.
fn tick(n: i128, period: i128, capacity: impl Fn(i128) -> i128) -> i128 {
    let fits = |tick: &i128| {
        let divisor = greatest_common_divisor(n * tick, period);
        (capacity(*tick) + n * tick) / divisor <= 1 << 53
    };
    let mut ticks = (0..=6).map(|exponent| 10_i128.pow(exponent));
    ticks.find(fits).expect("numbers that some tick can hold")
}

impl DebtBucket {
    fn tick_of(&self, now: i128) -> i128 {
        now - now % self.tick
    }

    fn effective(&self, now: i128) -> i128 {
        self.tick_of(now).max(self.stamp)
    }

    fn debt_at(&self, now: i128) -> i128 {
        let elapsed = self.effective(now) - self.stamp;
        (self.debt - elapsed * self.n).max(0)
    }

    fn paid_after(&self, debt: i128, now: i128) -> i128 {
        let ticks = rounded_up(debt, self.n * self.tick);
        self.effective(now) + ticks * self.tick - now
    }
}

impl Model for DebtBucket {
    fn forget(&mut self, at: i128) {
        self.debt = 0;
        self.stamp = self.tick_of(at);
    }

    fn limit(&self) -> i128 {
        self.capacity / self.period
    }

    fn span(&self) -> i128 {
        match self.n {
            0 => 0,
            n => rounded_up(self.capacity, n * self.tick) * self.tick,
        }
    }

    fn shape(&self) -> Vec<i128> {
        vec![self.tick, i128::from(self.n == 0)]
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        cost == 0 || self.debt_at(now) + cost * self.period <= self.capacity
    }

    fn charge(&mut self, cost: i128, now: i128) {
        self.debt = self.debt_at(now) + cost * self.period;
        self.stamp = self.effective(now);
    }

    /// A queue gives nothing back: those behind keep the turns that they were promised.
    fn refund(&mut self, cost: i128, now: i128) {
        if self.queue.is_none() {
            self.debt = (self.debt_at(now) - cost * self.period).max(0);
            self.stamp = self.effective(now);
        }
    }

    fn delay(&self, cost: i128, now: i128) -> i128 {
        let Some(queue) = self.queue else { return 0 };
        let before_it = (queue.burst - cost).max(0) * self.period;
        let late = self.debt_at(now) - before_it;
        if cost == 0 || late <= 0 {
            return 0;
        }
        self.paid_after(late, now)
    }

    /// A fraction of a unit may be owed while all whole units remain.
    fn reset_after(&self, now: i128) -> Option<i128> {
        match self.debt_at(now) {
            debt if self.n > 0 && debt > 0 => Some(self.paid_after(debt, now)),
            _ => Some(0),
        }
    }

    fn bound(&self, largest_cost: i128) -> Bound {
        let (n, period, tick) = (self.n, self.period, self.tick);
        match self.queue {
            Some(Queue { burst, bound }) => Bound {
                span: period,
                most: bound(n, period, tick, burst, largest_cost),
                counts: Counts::Releases,
            },
            None => {
                let burst = self.capacity / period;
                Bound::units(period, formulas::debt_bucket(burst, n, period, tick))
            }
        }
    }
}

// The least interval between two requests.

#[derive(Debug, Clone)]
struct MinInterval {
    interval: i128,
    last: Option<i128>,
}

/// At least this long between two admitted requests.
pub fn min_interval(interval: u64) -> Box<dyn Model> {
    Box::new(MinInterval {
        interval: interval.into(),
        last: None,
    })
}

impl Model for MinInterval {
    fn forget(&mut self, _at: i128) {
        self.last = None;
    }

    fn limit(&self) -> i128 {
        1
    }

    fn span(&self) -> i128 {
        self.interval
    }

    fn shape(&self) -> Vec<i128> {
        Vec::new()
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        cost == 0 || self.last.is_none_or(|last| now >= last + self.interval)
    }

    fn charge(&mut self, _cost: i128, now: i128) {
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
    }

    fn refund(&mut self, cost: i128, _now: i128) {
        if cost > 0 {
            self.last = None;
        }
    }

    /// One request in any span of the interval; ⌈P/d⌉ in a span of P follows.
    fn bound(&self, _largest_cost: i128) -> Bound {
        Bound {
            span: self.interval,
            most: 1,
            counts: Counts::Requests,
        }
    }
}

// What counts requests.

/// A bucket that each request takes 1 from.
pub fn debt_bucket_per_request(n: u64, period: u64, capacity: u64) -> Box<dyn Model> {
    per_request(debt_bucket(n, period, capacity))
}

/// A log with one unit for each request.
pub fn sliding_log_per_request(n: u64, period: u64) -> Box<dyn Model> {
    per_request(sliding_log(n, period))
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

fn rounded_up(number: i128, divisor: i128) -> i128 {
    (number + divisor - 1) / divisor
}
