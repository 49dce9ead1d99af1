use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::quota::Quota;

/// From a text such as `20/s`, as [`FromStr`](std::str::FromStr) reads it.
impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// As a text such as `20/s`, which reads as the same quota.
impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
