//! `EachOf` from a list of algorithms.

use serde::{Deserialize, Deserializer};

use crate::each_of::EachOf;

/// From a list with one algorithm for each key, in order.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for EachOf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}
