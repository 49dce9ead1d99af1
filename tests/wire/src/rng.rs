//! Numbers that are the same in every run.

/// SplitMix64: as many numbers as wanted from one seed.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The numbers that follow from this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number, all alike likely.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }

    /// A number of any length in bits, with the ends and their neighbours more likely than the rest.
    pub fn edgy(&mut self) -> u64 {
        const EDGES: [u64; 9] = [
            0,
            1,
            2,
            999_999,
            1_000_000,
            1_000_001,
            999_999_999_999_999,
            1_000_000_000_000_000,
            u64::MAX,
        ];
        match self.below(4) {
            0 => EDGES[self.below(9) as usize],
            _ => self.any() >> self.below(64),
        }
    }
}
