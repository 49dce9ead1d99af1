//! The value of a header field: an API key, a tenant.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use http::{HeaderName, Request};
use sha2::{Digest, Sha256};

use crate::error::{ConfigError, or_panic};

use super::{KeyExtractor, MissingKey};

/// Charges a request to the value of a header field, or of gRPC metadata; answers 400, naming the
/// field, if it is missing or there twice.
///
/// The value is compared byte by byte: nothing is trimmed, decoded or folded, so `Bob` and `bob`
/// have two buckets. An empty value is a value. **Anyone can send any value**: put the limit behind
/// the layer that checks the credential, or limit by address too, or else a caller gets a fresh
/// bucket by making up a value.
///
/// [`or_skip`](Self::or_skip) and [`or_shared`](Self::or_shared) choose what happens to a request
/// without the field. A request with several lines of the field is always answered with 400, since
/// two readers may pick different ones.
///
/// # Example: one bucket per API key
///
/// ```
/// use http::Request;
/// use tollgate::key::{Header, KeyExtractor};
///
/// let by_api_key = Header::new("x-api-key");
/// let with = |key: &str| Request::builder().header("x-api-key", key).body(()).unwrap();
///
/// let ann = by_api_key.extract(&with("ann's")).unwrap();
/// assert_eq!(by_api_key.extract(&with("ann's")).unwrap(), ann);
/// assert_ne!(by_api_key.extract(&with("bob's")).unwrap(), ann);
///
/// let rejection = by_api_key.extract(&Request::new(())).unwrap_err();
/// assert_eq!(rejection.status(), 400);
/// assert_eq!(rejection.message(), "the request lacks a required header field: x-api-key");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    name: HeaderName,
    on_missing: OnMissing,
}

impl Header {
    /// Charges a request to the value of this field.
    ///
    /// # Panics
    ///
    /// The name is not one that HTTP allows.
    #[track_caller]
    pub fn new(name: impl AsRef<str>) -> Self {
        let name = or_panic(parse_name(name.as_ref()));
        let on_missing = OnMissing::Reject;
        Self { name, on_missing }
    }

    /// Lets a request without the field pass: no limit applies to it.
    ///
    /// Use it only if something else bounds such requests: any caller can leave the field out.
    ///
    /// # Example: only those with a key are limited
    ///
    /// ```
    /// use http::Request;
    /// use tollgate::key::{Header, KeyExtractor};
    ///
    /// let by_api_key = Header::new("x-api-key").or_skip();
    /// assert_eq!(by_api_key.extract(&Request::new(())), Ok(None));
    /// ```
    #[must_use]
    pub fn or_skip(mut self) -> Self {
        self.on_missing = OnMissing::Skip;
        self
    }

    /// Charges all requests without the field to one bucket of their own, which no value of the
    /// field shares.
    ///
    /// # Example: anonymous callers share a bucket
    ///
    /// ```
    /// use http::Request;
    /// use tollgate::key::{Header, HeaderKey, KeyExtractor};
    ///
    /// let by_api_key = Header::new("x-api-key").or_shared();
    /// let anonymous = by_api_key.extract(&Request::new(())).unwrap();
    /// assert!(anonymous.is_some());
    /// assert_ne!(anonymous, Some(HeaderKey::from("")));
    /// ```
    #[must_use]
    pub fn or_shared(mut self) -> Self {
        self.on_missing = OnMissing::Share;
        self
    }
}

impl<B> KeyExtractor<Request<B>> for Header {
    type Key = HeaderKey;
    type Rejection = MissingKey;

    fn extract(&self, request: &Request<B>) -> Result<Option<HeaderKey>, MissingKey> {
        let mut lines = request.headers().get_all(&self.name).iter();
        match (lines.next(), lines.next(), self.on_missing) {
            (Some(value), None, _) => Ok(Some(HeaderKey::from(value))),
            (Some(_), Some(_), _) => Err(MissingKey::of_header(&self.name, REPEATED)),
            (None, _, OnMissing::Reject) => Err(MissingKey::of_header(&self.name, LACKING)),
            (None, _, OnMissing::Skip) => Ok(None),
            (None, _, OnMissing::Share) => Ok(Some(HeaderKey::SHARED)),
        }
    }
}

/// The key of one value of a header field: up to 62 bytes as they are, a longer value as its
/// SHA-256 digest.
///
/// It takes 63 bytes and no allocation, and keeps nothing of the request alive. No digest equals a
/// short value. `Debug` and `Display` are for logs: they print the length and a few escaped bytes
/// from the start, never the whole value, and the value cannot be read back. To find a caller,
/// compare with `HeaderKey::from`; to name callers in a log, use a key of your own, by
/// [`from_fn`](super::from_fn()) or [`FromExtension`](super::FromExtension).
///
/// # Example: reset the bucket of a caller
///
/// ```
/// use http::Request;
/// use tollgate::key::{Header, HeaderKey, KeyExtractor};
///
/// let request = Request::builder().header("x-api-key", "sk-live-12345678").body(()).unwrap();
/// let key = Header::new("x-api-key").extract(&request).unwrap().unwrap();
/// assert_eq!(key, HeaderKey::from("sk-live-12345678"));
/// assert_eq!(key.to_string(), "sk-l… (16 bytes)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeaderKey {
    /// How many of the bytes are the value, or one of the tags below. The bytes after the value are
    /// zero.
    length_or_tag: u8,
    bytes: [u8; Self::MAX_INLINE],
}

impl HeaderKey {
    const MAX_INLINE: usize = 62;
    const DIGEST: u8 = 0xFE;
    const NO_VALUE: u8 = 0xFF;
    const SHARED: Self = Self {
        length_or_tag: Self::NO_VALUE,
        bytes: [0; Self::MAX_INLINE],
    };

    fn value_or_digest(&self) -> &[u8] {
        match self.length_or_tag {
            Self::DIGEST => &self.bytes[..<Sha256 as Digest>::output_size()],
            Self::NO_VALUE => &[],
            length => &self.bytes[..usize::from(length)],
        }
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for HeaderKey {
    fn from(value: &T) -> Self {
        let value = value.as_ref();
        let mut bytes = [0; Self::MAX_INLINE];
        let length_or_tag = match bytes.get_mut(..value.len()) {
            Some(place) => {
                place.copy_from_slice(value);
                value.len() as u8
            }
            None => {
                let digest = Sha256::digest(value);
                bytes[..digest.len()].copy_from_slice(&digest);
                Self::DIGEST
            }
        };
        Self {
            length_or_tag,
            bytes,
        }
    }
}

impl Hash for HeaderKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.length_or_tag);
        state.write(self.value_or_digest());
    }
}

/// The value as a secret; no value as `n;`.
#[cfg(feature = "redis")]
impl super::PortableKey for HeaderKey {
    fn write_to(&self, parts: &mut super::KeyParts) {
        match self.length_or_tag {
            Self::NO_VALUE => parts.absent(),
            Self::DIGEST => parts.digested_secret(self.value_or_digest()),
            _ => parts.secret(self.value_or_digest()),
        };
    }
}

impl fmt::Display for HeaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_SHOWN: usize = 4;

        let value = self.value_or_digest();
        match self.length_or_tag {
            Self::NO_VALUE => f.write_str("no value"),
            Self::DIGEST => {
                f.write_str("sha-256 ")?;
                for byte in &value[..MAX_SHOWN] {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("…")
            }
            length => {
                // At most a quarter of it, so that a short secret is not shown either.
                let shown = &value[..MAX_SHOWN.min(value.len() / 4)];
                write!(f, "{}… ({length} bytes)", shown.escape_ascii())
            }
        }
    }
}

impl fmt::Debug for HeaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeaderKey({self})")
    }
}

const LACKING: &str = "lacks a required header field";
/// Two readers may pick different ones of the field's values.
pub(super) const REPEATED: &str = "repeats a header field that may be there only once";

/// What to do with a request without the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnMissing {
    Reject,
    Skip,
    Share,
}

pub(super) fn parse_name(name: &str) -> Result<HeaderName, ConfigError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| ConfigError::InvalidHeaderName(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        hash::{BuildHasher, RandomState},
    };

    use http::HeaderValue;

    use super::*;

    fn with(values: &[&[u8]]) -> Request<()> {
        let mut request = Request::new(());
        for value in values {
            let value = HeaderValue::from_bytes(value).unwrap();
            request.headers_mut().append("x-api-key", value);
        }
        request
    }

    fn key(value: &[u8]) -> HeaderKey {
        let request = with(&[value]);
        Header::new("X-Api-Key").extract(&request).unwrap().unwrap()
    }

    #[test]
    fn values_of_every_length_are_distinct_and_bounded() {
        let values: Vec<Vec<u8>> = [0, 1, 2, 31, 32, 33, 61, 62, 63, 64, 4096, 65_536]
            .iter()
            .flat_map(|&length| [vec![b'a'; length], vec![b'b'; length]])
            .collect();
        let keys: HashSet<_> = values.iter().map(|value| key(value)).collect();
        // The empty value is there twice.
        assert_eq!(keys.len(), values.len() - 1);
        assert_eq!(size_of::<HeaderKey>(), 63);
    }

    #[test]
    fn no_short_value_equals_a_digest_or_the_shared_bucket() {
        let long = [b'x'; 63];
        let digest = Sha256::digest(long);
        assert_ne!(HeaderKey::from(&long), HeaderKey::from(&digest));
        assert_ne!(HeaderKey::from(b""), HeaderKey::SHARED);
        assert_ne!(HeaderKey::from(b""), HeaderKey::from(b"\0"));
        assert_ne!(HeaderKey::from(&[0; 62]), HeaderKey::SHARED);
    }

    #[test]
    fn equal_keys_hash_alike() {
        let hasher = RandomState::new();
        for value in [&b""[..], b"a", &[b'a'; 62], &[b'a'; 63]] {
            assert_eq!(hasher.hash_one(key(value)), hasher.hash_one(key(value)));
        }
    }

    #[test]
    fn keys_hash_apart_by_their_value_and_by_what_they_are() {
        let hasher = RandomState::new();
        let long = [b'x'; 63];
        let digest = Sha256::digest(long);
        let keys = [
            HeaderKey::from(b""),
            HeaderKey::from(b"a"),
            HeaderKey::from(b"b"),
            HeaderKey::from(b"a\0"),
            HeaderKey::from(&long),
            HeaderKey::from(&digest),
            HeaderKey::SHARED,
        ];
        let hashes: HashSet<_> = keys.iter().map(|key| hasher.hash_one(key)).collect();
        assert_eq!(hashes.len(), keys.len());
    }

    #[test]
    fn a_missing_field_is_rejected_unless_another_choice_was_made() {
        let none = with(&[]);
        let header = Header::new("x-api-key");
        assert_eq!(header.extract(&none).unwrap_err().status(), 400);
        assert_eq!(header.clone().or_skip().extract(&none), Ok(None));
        let told = header.extract(&none).unwrap_err();
        assert!(told.message().ends_with(": x-api-key"), "{told}");
        let shared = header.or_shared().extract(&none);
        assert_eq!(shared, Ok(Some(HeaderKey::SHARED)));
    }

    #[test]
    fn a_field_that_is_there_twice_is_rejected_whatever_was_chosen() {
        let twice = with(&[b"a", b"a"]);
        let header = Header::new("x-api-key");
        for header in [header.clone(), header.clone().or_skip(), header.or_shared()] {
            let rejection = header.extract(&twice).unwrap_err();
            assert_eq!(rejection.status(), 400);
            assert!(rejection.message().ends_with(": x-api-key"), "{rejection}");
        }
    }

    #[test]
    fn case_and_spaces_are_kept_apart() {
        assert_ne!(key(b"Bob"), key(b"bob"));
        assert_ne!(key(b"a b"), key(b"ab"));
    }

    #[test]
    fn what_is_printed_is_one_line_and_never_the_whole_value() {
        for value in [
            &b"sk"[..],
            b"secret-token-0123456789",
            b"\x1b[31m\nred\r\n\0\xff\xfe ............",
            &[0xff; 62],
            &[b'k'; 200],
        ] {
            for printed in [
                HeaderKey::from(value).to_string(),
                format!("{:?}", HeaderKey::from(value)),
            ] {
                assert!(!printed.contains(char::is_control), "{printed:?}");
                let whole = value.escape_ascii().to_string();
                assert!(!printed.contains(&whole), "{printed:?}");
                assert!(printed.len() < 50, "{printed:?}");
            }
        }
        assert_eq!(
            HeaderKey::from(b"\x1b[31mabc").to_string(),
            r"\x1b[… (8 bytes)"
        );
        assert_eq!(HeaderKey::from(b"k").to_string(), "… (1 bytes)");
        assert_eq!(HeaderKey::SHARED.to_string(), "no value");
        assert_eq!(
            format!("{:?}", HeaderKey::from(b"k")),
            "HeaderKey(… (1 bytes))"
        );
    }

    #[test]
    #[should_panic(expected = "\"x api key\" is not a header name")]
    fn a_name_that_http_does_not_allow_panics_with_the_name() {
        let _ = Header::new("x api key");
    }
}
