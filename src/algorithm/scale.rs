//! The state of a bucket in two words, which know what their numbers count.

/// A debt in parts of a unit and the tick that it was last seen at, with the [`Scale`] of both.
///
/// A named policy keeps its buckets when its numbers change, and then the parts and ticks of an old
/// state are not those of the new policy. The numbers need 53 bits each; the scale lives in the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaled {
    debt: u64,
    stamp: u64,
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
            debt: parts | half(scale.0 >> HALF_BITS),
            stamp: ticks | half(scale.0),
        }
    }

    #[inline]
    pub(super) fn parts(self) -> u64 {
        self.debt & NUMBER_MASK
    }

    #[inline]
    pub(super) fn ticks(self) -> u64 {
        self.stamp & NUMBER_MASK
    }

    #[inline]
    pub(super) fn scale(self) -> Scale {
        let half = |word: u64| (word >> NUMBER_BITS) as u32;
        Scale((half(self.debt) << HALF_BITS) | half(self.stamp))
    }

    /// The same debt and instant in another scale, the debt kept to one part in 4096.
    #[cold]
    pub(super) fn rescaled(self, scale: Scale, parts_per_unit: u64) -> Self {
        let old = self.scale();
        // As a Lua number counts, so that every store says the same.
        let parts = self.parts() as f64 * parts_per_unit as f64;
        let parts = (parts / old.parts_per_unit_at_most() as f64).ceil();
        let micros = self.ticks() * old.tick_micros();
        let ticks = (micros / scale.tick_micros()).min(NUMBER_MASK);
        Self::new((parts as u64).min(NUMBER_MASK), ticks, scale)
    }
}

/// How many parts a unit has (to 13 bits, rounded down), and how long a tick is, in 22 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale(u32);

const FRACTION_BITS: u32 = 13;
const EXPONENT_BITS: u32 = 6;

impl Scale {
    pub(super) fn new(parts_per_unit: u64, tick_exponent: u32) -> Self {
        let exponent = parts_per_unit.ilog2();
        // The bits after the leading one, at the top of the fraction.
        let fraction = (parts_per_unit << (63 - exponent) << 1) >> (64 - FRACTION_BITS);
        let fraction = u32::try_from(fraction).expect("13 bits");
        Self(
            (tick_exponent << (EXPONENT_BITS + FRACTION_BITS))
                | (exponent << FRACTION_BITS)
                | fraction,
        )
    }

    pub(super) fn bits(self) -> u32 {
        self.0
    }

    fn parts_per_unit_at_most(self) -> u64 {
        let exponent = (self.0 >> FRACTION_BITS) & ((1 << EXPONENT_BITS) - 1);
        let fraction = u64::from(self.0 & ((1 << FRACTION_BITS) - 1));
        let leading_one = 1 << exponent;
        match exponent.checked_sub(FRACTION_BITS) {
            Some(up) => leading_one | (fraction << up),
            None => leading_one | (fraction >> (FRACTION_BITS - exponent)),
        }
    }

    fn tick_micros(self) -> u64 {
        10_u64.pow(self.0 >> (EXPONENT_BITS + FRACTION_BITS))
    }
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
        for parts_per_unit in [1, 2, 3, 8_191, 8_192, 86_400_000_000, (1 << 53) - 1] {
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
                assert!(told <= parts_per_unit && parts_per_unit - told <= parts_per_unit >> 13);
            }
        }
    }

    #[test]
    fn another_scale_keeps_the_debt_and_never_forgives_any() {
        let (old, new) = (Scale::new(50_000, 0), Scale::new(86_400, 1));
        let seven_units_and_a_half = Scaled::new(375_000, 123_456, old);
        let kept = seven_units_and_a_half.rescaled(new, 86_400);
        assert_eq!(kept.ticks(), 12_345);
        let exact = 86_400 * 15 / 2;
        assert!(
            kept.parts() >= exact && kept.parts() <= exact + exact / 4_096,
            "{kept:?}"
        );
    }
}
