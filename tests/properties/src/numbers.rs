//! Random numbers for policies: small ones, which hit boundaries all the time, and real ones.

use std::{ops::RangeInclusive, time::Duration};

use proptest::{prelude::*, sample::Index};
use tollgate::Quota;

/// The numbers that every algorithm of the list is built from; times are in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// The quota's units.
    pub units: u64,
    /// The quota's period.
    pub period: u64,
    /// A burst or capacity of its own.
    pub burst: u64,
    /// A divisor of the period.
    pub precision: u64,
    /// The interval between two requests.
    pub interval: u64,
    /// The units of a second quota, for tuples.
    pub other_units: u64,
    /// The period of the second quota.
    pub other_period: u64,
}

impl Numbers {
    /// These units in these microseconds, which are those of the second quota, too.
    pub const fn new(
        (units, period): (u64, u64),
        burst: u64,
        precision: u64,
        interval: u64,
    ) -> Self {
        let (other_units, other_period) = (units, period);
        Self {
            units,
            period,
            burst,
            precision,
            interval,
            other_units,
            other_period,
        }
    }

    /// With these units and this period of the second quota.
    pub const fn beside(self, other_units: u64, other_period: u64) -> Self {
        Self {
            other_units,
            other_period,
            ..self
        }
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        Quota::new(self.units, Duration::from_micros(self.period))
    }

    /// The second quota.
    pub fn other_quota(&self) -> Quota {
        Quota::new(self.other_units, Duration::from_micros(self.other_period))
    }

    /// The precision.
    pub fn precision(&self) -> Duration {
        Duration::from_micros(self.precision)
    }

    /// The interval.
    pub fn interval(&self) -> Duration {
        Duration::from_micros(self.interval)
    }
}

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Quotas as people write them, and some whose large primes force ticks of 10 µs and more.
const REAL: [(u64, u64); 14] = [
    (1, SECOND),
    (3, SECOND),
    (20, SECOND),
    (997, SECOND),
    (60, 60 * SECOND),
    (61, 60 * SECOND),
    (1_000, 3_600 * SECOND),
    (4_999, 3_600 * SECOND),
    (1, DAY),
    (259_200, DAY),
    (999_983, DAY),
    (10_000_019, DAY),
    (1_000_000_007, DAY),
    (15_485_863, 999 * SECOND),
];

/// Up to 8 units in up to 60 µs.
pub fn small() -> impl Strategy<Value = Numbers> {
    let quota = || (0..=8_u64, 1..=60_u64);
    (quota(), 0..=9_u64, any::<Index>(), 1..=40_u64, quota()).prop_map(
        |(quota, burst, divisor, interval, (units, period))| {
            let precision = *divisor.get(&divisors(quota.1));
            Numbers::new(quota, burst, precision, interval).beside(units, period)
        },
    )
}

/// The numbers of an additive algorithm whose units are held.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Those of the algorithm.
    pub numbers: Numbers,
    /// The longest time for a hold, in microseconds.
    pub at_most: u64,
}

/// So many units in up to 9 µs.
pub fn held(units: RangeInclusive<u64>) -> impl Strategy<Value = Held> {
    (units, 1..=9_u64, 1..=6_u64, any::<Index>(), 1..=12_u64).prop_map(
        |(units, period, burst, divisor, at_most)| {
            let precision = *divisor.get(&divisors(period));
            let numbers = Numbers::new((units, period), burst, precision, 1);
            Held { numbers, at_most }
        },
    )
}

/// Plans that differ in nothing but units, bursts and intervals, as windows of one name must.
pub fn of_one_shape(mut plans: Vec<Numbers>) -> Vec<Numbers> {
    let first = plans[0];
    for plan in &mut plans {
        (plan.period, plan.precision) = (first.period, first.precision);
        plan.other_period = first.other_period;
    }
    plans
}

fn divisors(of: u64) -> Vec<u64> {
    (1..=of).filter(|d| of.is_multiple_of(*d)).collect()
}

/// Quotas as people write them.
pub fn real() -> impl Strategy<Value = Numbers> {
    let quota = || prop::sample::select(&REAL[..]);
    let slices = prop::sample::select(&[1_u64, 2, 10, 60, 1_000][..]);
    let intervals = prop::sample::select(&[1_u64, 999, 100_000, SECOND, 60 * SECOND][..]);
    (quota(), 0..4_usize, slices, intervals, quota()).prop_map(
        |((units, period), burst, slices, interval, (others, other_period))| {
            let burst = [1, 2, units / 2 + 1, units * 2][burst];
            let slices = if period.is_multiple_of(slices) {
                slices
            } else {
                1
            };
            let numbers = Numbers::new((units, period), burst, period / slices, interval);
            numbers.beside(others, other_period)
        },
    )
}

/// Mostly small numbers.
pub fn numbers() -> impl Strategy<Value = Numbers> {
    prop_oneof![3 => small(), 1 => real()]
}
