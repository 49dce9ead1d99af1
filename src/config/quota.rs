use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::quota::Quota;

/// From a text such as `20/s`, as [`FromStr`](std::str::FromStr) reads it.
impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

/// As a text such as `20/s`, which reads as the same quota.
impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct Text;

impl de::Visitor<'_> for Text {
    type Value = Quota;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quota such as \"20/s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quota, E> {
        text.parse().map_err(E::custom)
    }
}
