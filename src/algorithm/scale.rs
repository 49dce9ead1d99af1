//! The state of a bucket in two words, which know what their numbers count.

use super::word::Word;

/// A debt in parts of a unit and the tick that it was last seen at, with the [`Scale`] of both.
///
/// A named policy keeps its buckets when its numbers change, and then the parts and ticks of an old
/// state are not those of the new policy. The numbers need 53 bits each; the scale lives in the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaled {
    debt: Word,
    stamp: Word,
}

const NUMBER_BITS: u32 = 53;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const HALF_BITS: u32 = 64 - NUMBER_BITS;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;

impl Scaled {
    #[inline]
    pub(super) fn new(parts: u64, ticks: u64, scale: Scale) -> Self {
        let half = |bits: u32| u64::from(bits & HALF_MASK) << NUMBER_BITS;
        Self {
            debt: Word::new(parts | half(scale.0 >> HALF_BITS)),
            stamp: Word::new(ticks | half(scale.0)),
        }
    }

    #[inline]
    pub(super) fn parts(self) -> u64 {
        self.debt.get() & NUMBER_MASK
    }

    #[inline]
    pub(super) fn ticks(self) -> u64 {
        self.stamp.get() & NUMBER_MASK
    }

    #[inline]
    pub(super) fn scale(self) -> Scale {
        let half = |word: u64| (word >> NUMBER_BITS) as u32;
        Scale((half(self.debt.get()) << HALF_BITS) | half(self.stamp.get()))
    }

    /// The same debt and instant in another scale: exactly, if the [`Scale`] knows how many parts a unit had; otherwise the
    /// debt is kept to one part in 2048.
    #[cold]
    pub(super) fn rescaled(self, scale: Scale, parts_per_unit: u64) -> Self {
        let old = self.scale();
        let old_parts_per_unit = old.parts_per_unit_at_most();
        let divisor = greatest_common_divisor(parts_per_unit.into(), old_parts_per_unit.into());
        let [grows, shrinks] = [parts_per_unit, old_parts_per_unit].map(u128::from);
        // As a Lua number counts, so that every store says the same.
        let parts = self.parts() as f64 * (grows / divisor) as f64;
        let parts = (parts / (shrinks / divisor) as f64).ceil();
        let micros = self.ticks() * old.tick_micros();
        let ticks = (micros / scale.tick_micros()).min(NUMBER_MASK);
        Self::new((parts as u64).min(NUMBER_MASK), ticks, scale)
    }
}

/// How many parts a unit has, and how long a tick is, in 22 bits.
///
/// A unit has as many parts as divide the period, so that mostly its primes are few and small: then it is known exactly, by
/// how often it has each of them. Otherwise it is known to 12 bits, rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale(u32);

const TICK_SHIFT: u32 = 19;
const IS_A_PRODUCT: u32 = 1 << 18;
/// The primes of seconds, hours, days, weeks and years, each with the bits that say how often.
const PRIMES: [(u64, u32); 5] = [(2, 6), (3, 4), (5, 5), (7, 2), (73, 1)];
const FRACTION_BITS: u32 = 12;

impl Scale {
    pub(super) fn new(parts_per_unit: u64, tick_exponent: u32) -> Self {
        let parts = product(parts_per_unit).unwrap_or_else(|| rounded(parts_per_unit));
        Self((tick_exponent << TICK_SHIFT) | parts)
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }

    fn parts_per_unit_at_most(self) -> u64 {
        if self.0 & IS_A_PRODUCT != 0 {
            let mut bits = self.0;
            let powers = PRIMES.map(|(prime, width)| {
                let power = bits & ((1 << width) - 1);
                bits >>= width;
                prime.pow(power)
            });
            return powers.iter().product();
        }
        let exponent = (self.0 >> FRACTION_BITS) & 63;
        let fraction = u64::from(self.0 & ((1 << FRACTION_BITS) - 1));
        let leading_one = 1 << exponent;
        match exponent.checked_sub(FRACTION_BITS) {
            Some(up) => leading_one | (fraction << up),
            None => leading_one | (fraction >> (FRACTION_BITS - exponent)),
        }
    }

    fn tick_micros(self) -> u64 {
        10_u64.pow(self.0 >> TICK_SHIFT)
    }
}

/// How often it has each of the primes; `None` if it has others, or one of them too often.
fn product(mut number: u64) -> Option<u32> {
    let (mut bits, mut shift) = (IS_A_PRODUCT, 0);
    for (prime, width) in PRIMES {
        let mut power = 0;
        while number.is_multiple_of(prime) {
            number /= prime;
            power += 1;
        }
        if power >> width != 0 {
            return None;
        }
        bits |= power << shift;
        shift += width;
    }
    (number == 1).then_some(bits)
}

/// Its exponent, and the bits after the leading one.
fn rounded(number: u64) -> u32 {
    let exponent = number.ilog2();
    let fraction = (number << (63 - exponent) << 1) >> (64 - FRACTION_BITS);
    (exponent << FRACTION_BITS) | u32::try_from(fraction).expect("12 bits")
}

pub(super) fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_keeps_its_numbers_and_its_scale() {
        let large = [11 * 86_400_000_000, 1 << 53, (1 << 53) - 1, 3_u64.pow(16)];
        for parts_per_unit in [1, 2, 3, 8_191, 8_192, 86_400_000_000]
            .into_iter()
            .chain(large)
        {
            for tick_exponent in 0..=6 {
                let scale = Scale::new(parts_per_unit, tick_exponent);
                let state = Scaled::new(NUMBER_MASK, NUMBER_MASK - 1, scale);
                assert_eq!(
                    (state.parts(), state.ticks()),
                    (NUMBER_MASK, NUMBER_MASK - 1)
                );
                assert_eq!(state.scale(), scale);
                assert_eq!(scale.tick_micros(), 10_u64.pow(tick_exponent));
                let told = scale.parts_per_unit_at_most();
                assert!(told <= parts_per_unit && parts_per_unit - told <= parts_per_unit >> 12);
            }
        }
    }

    #[test]
    fn the_parts_of_a_unit_are_known_exactly_under_every_usual_period() {
        let (second, day) = (1_000_000, 86_400_000_000);
        let periods = [1, 30, 60, 90, 3_600].map(|seconds| seconds * second);
        for period in periods
            .into_iter()
            .chain([1, 7, 30, 365].map(|days| days * day))
        {
            for units in [1, 2, 3, 7, 11, 60, 1_000, 4_999, 86_400] {
                let divisor = greatest_common_divisor(units, period.into());
                let parts = period / u64::try_from(divisor).unwrap();
                assert_eq!(Scale::new(parts, 0).parts_per_unit_at_most(), parts);
            }
        }
    }

    #[test]
    fn another_scale_keeps_the_debt() {
        let (old, new) = (Scale::new(50_000, 0), Scale::new(86_400, 1));
        let seven_units_and_a_half = Scaled::new(375_000, 123_456, old);
        let kept = seven_units_and_a_half.rescaled(new, 86_400);
        assert_eq!((kept.parts(), kept.ticks()), (86_400 * 15 / 2, 12_345));
    }

    #[test]
    fn a_debt_in_odd_parts_is_never_forgiven() {
        // A prime number of them.
        let (old, new) = (Scale::new(50_021, 0), Scale::new(86_400, 1));
        let kept = Scaled::new(7 * 50_021, 0, old).rescaled(new, 86_400);
        let exact = 7 * 86_400;
        let range = exact..=exact + exact / 2_048;
        assert!(range.contains(&kept.parts()), "{kept:?}");
    }
}
