//! The printed bounds: the most units in any half-open span (t−P, t] of one period.
//!
//! `bounds.rs` of the properties reaches each of them by exhaustive search in small numbers;
//! `invariants.rs` never passes them with random ones. `n` is the quota's units, `period` its
//! microseconds.

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
/// rounded down; with ticks of T µs what refills in ⌈(P−1)/T⌉ of them, which is n if T divides the
/// period. Nothing if n or the burst is 0.
pub fn debt_bucket(burst: i128, n: i128, period: i128, tick: i128) -> i128 {
    if n == 0 || burst == 0 {
        return 0;
    }
    let ticks = rounded_up(period - 1, tick);
    burst + n * tick * ticks / period
}

/// Whether the burst (or a queue's capacity) has room for what refills in a microsecond and for the
/// largest fraction of a unit. Then nothing is lost, and the bounds of [`debt_bucket`] and
/// [`queue`] are reached.
///
/// A burst of 1 has it only if the period is a multiple of n; otherwise it is a [`min_interval`] of
/// ⌈P/n⌉.
pub fn holds_what_refills(burst: i128, n: i128, period: i128) -> bool {
    let divisor = greatest_common_divisor(n, period);
    let (paid, unit) = (n / divisor, period / divisor);
    n > 0 && burst * unit >= paid + unit - 1
}

/// n + c − 1 by scheduled time of release, where c is the largest cost. With ticks of T µs the span
/// touches ⌈(P−1)/T⌉ + 1 of them (P if T is 1), and a request that goes through at once may do so
/// at the end of the first.
pub fn queue(n: i128, period: i128, tick: i128, largest_cost: i128) -> i128 {
    if n == 0 || largest_cost == 0 {
        return 0;
    }
    let ticks = rounded_up(period - 1, tick) + 1;
    rounded_up(n * tick * ticks, period) - 1 + largest_cost
}

/// Like a [`queue`] in which every cost is at least the burst, whatever the wait: max(burst, c) + n
/// − 1.
///
/// With more than a unit per microsecond it is more than the max(burst, c) + ⌊n(P−1)/P⌋ of a bucket
/// that refuses: a release is rounded up to the next microsecond, and what is paid off in the rest
/// of it is not lost. With 2 in 1 µs, a burst of 1 and a wait of 1 µs, of three at 0 two leave at
/// 1.
pub fn wait_at_most(n: i128, period: i128, tick: i128, burst: i128, largest_cost: i128) -> i128 {
    if burst == 0 || largest_cost == 0 {
        return 0;
    }
    queue(n, period, tick, burst.max(largest_cost))
}

/// ⌈P/d⌉ requests.
pub fn min_interval(interval: i128, period: i128) -> i128 {
    rounded_up(period, interval)
}

pub(crate) fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

pub(crate) fn rounded_up(number: i128, divisor: i128) -> i128 {
    (number + divisor - 1) / divisor
}
