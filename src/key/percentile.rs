//! The percentile of a key among all keys.

use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher24;

/// The percentile of a key among all keys, from 0 to just below 100: the same in every process, for
/// [`enforce`](crate::RateLimitLayer::enforce).
///
/// `percentile(key) < 10.0` selects a tenth of the keys; a larger number selects the same keys and
/// more. It is a share of the keys, not of their requests. It is the SipHash-2-4 of what the key's
/// `Hash` writes, under a fixed key, and reveals nothing secret. Processes of one build always
/// agree, and processes of two builds agree if the key's `Hash` writes the same.
///
/// # Example: a key in the first tenth is in the first fifth too
///
/// ```
/// use tollgate::key::percentile;
///
/// let all: Vec<u32> = (0..10_000).collect();
/// let below = |percent| all.iter().filter(|key| percentile(key) < percent).count();
/// assert!((900..1_100).contains(&below(10.0)));
/// assert!((1_900..2_100).contains(&below(20.0)));
/// assert_eq!(below(100.0), 10_000);
/// ```
pub fn percentile<K: Hash + ?Sized>(key: &K) -> f64 {
    const ALL: f64 = 4_294_967_296.0;

    let mut hasher = SipHasher24::new();
    key.hash(&mut hasher);
    let highest_bits = (hasher.finish() >> 32) as u32;
    f64::from(highest_bits) * (100.0 / ALL)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::{EachOf, key::HeaderKey};

    /// No hash is seeded.
    #[test]
    fn a_key_stands_where_it_stands_in_every_process() {
        let address: IpAddr = [192, 0, 2, 1].into();
        let bob = || HeaderKey::from("bob");
        let nobody = None::<HeaderKey>;
        let stand: [f64; 12] = [
            percentile("bob"),
            percentile(&7_u16),
            percentile(&7_u32),
            percentile(&7_u64),
            percentile(&7_u128),
            percentile(&7_usize),
            percentile(&address),
            percentile(&bob()),
            percentile(&HeaderKey::from(&[b'x'; 1_000][..])),
            percentile(&(address, bob())),
            percentile(&EachOf((Some(address), Some(bob())))),
            percentile(&EachOf((Some(address), nobody))),
        ];
        let expected = [
            82.748_259, 30.935_323, 37.984_820, 71.451_288, 92.824_272, 71.451_288, 96.180_516,
            7.360_158, 98.381_384, 62.568_622, 51.913_456, 75.984_945,
        ];
        for (at, expected) in stand.into_iter().zip(expected) {
            assert!((at - expected).abs() < 1e-5, "{stand:?}");
        }
    }

    #[test]
    fn the_owned_form_of_a_key_stands_where_the_borrowed_one_does() {
        let owned = percentile(&"bob".to_owned());
        assert_eq!(owned.to_bits(), percentile("bob").to_bits());
    }
}
