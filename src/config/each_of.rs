//! The limits of several keys, from a list of algorithms.

use serde::{Deserialize, Deserializer};

use crate::each_of::EachOf;

/// From a list of as many algorithms as there are keys, in the order of their places.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for EachOf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}
