//! The bytes of a portable key, part after part.

use std::{fmt, io::Write, net::IpAddr};

use super::DigestKey;

/// The parts of a portable key, written one after the other as bytes: the name of the bucket in the
/// store.
///
/// | part | as bytes |
/// |---|---|
/// | [`text`](Self::text) | `s:bob;`, or `S:` and a digest if it is long |
/// | [`bytes`](Self::bytes) | `b:%00%FFok;`, or `B:` and a digest if there are many |
/// | [`number`](Self::number) | `u:42;` |
/// | [`signed`](Self::signed) | `i:-5;` |
/// | [`address`](Self::address) | `4:192.0.2.1;` or `6:2001:db8::1;` |
/// | [`secret`](Self::secret) | `x:` and a digest, always |
/// | [`absent`](Self::absent), [`present`](Self::present) | `n;`, `o;` |
///
/// - **Distinct**: no two different sequences of parts give the same bytes, since each part ends at
///   its only `;`. (Two digests of 128 bits could be equal, but that is not to be expected.)
/// - **Bounded**: every part takes at most [`MAX_PART_LEN`](Self::MAX_PART_LEN) bytes.
/// - **Plain**: a part consists of ASCII letters and digits and `-._~/:@+=,%;`. So it is one line
///   in every log, and has no brace that Redis Cluster would take for a hash tag, and no `*` of a
///   pattern.
/// - **Stable**: if a release changes the bytes of a part, the changelog says so, as that gives
///   everybody a fresh bucket.
///
/// # Example: a test of what an implementation writes
///
/// ```
/// use tollgate::key::{KeyParts, PortableKey};
///
/// let mut parts = KeyParts::new();
/// ("a b", Some(7_u16), None::<u16>).write_to(&mut parts);
/// assert_eq!(parts.as_bytes(), b"s:a%20b;o;u:7;n;");
/// ```
#[derive(Clone, Default)]
pub struct KeyParts {
    bytes: Vec<u8>,
    digest_key: DigestKey,
}

impl KeyParts {
    /// The most bytes that one part takes.
    pub const MAX_PART_LEN: usize = "s:;".len() + Self::MAX_VALUE_LEN;

    /// The most bytes of text between the `:` and the `;`; longer text becomes a digest.
    const MAX_VALUE_LEN: usize = 64;

    /// No parts yet; digests are made under a key that is published in the source.
    pub fn new() -> Self {
        Self::default()
    }

    /// No parts yet; digests are made under this key.
    ///
    /// # Example: another key, other digests
    ///
    /// ```
    /// use tollgate::key::KeyParts;
    ///
    /// let digest = |key| KeyParts::keyed(&[key; 32]).secret(b"sk-live-1").as_bytes().to_vec();
    /// assert_eq!(digest(1), digest(1));
    /// assert_ne!(digest(1), digest(2));
    /// ```
    pub fn keyed(digest_key: &[u8; 32]) -> Self {
        Self::after(Vec::new(), &DigestKey::new(digest_key))
    }

    /// Appends the parts to bytes that a store has already written.
    ///
    /// Nothing is allocated as long as the parts fit into the capacity of these bytes.
    pub(crate) fn after(prefix: Vec<u8>, digest_key: &DigestKey) -> Self {
        Self {
            bytes: prefix,
            digest_key: digest_key.clone(),
        }
    }

    /// Appends text, with characters that are not plain escaped like `%20`; or its digest, if the
    /// result is longer than 64 bytes.
    ///
    /// # Example: escapes, and long text
    ///
    /// ```
    /// use tollgate::key::KeyParts;
    ///
    /// assert_eq!(KeyParts::new().text("/users/{id}").as_bytes(), b"s:/users/%7Bid%7D;");
    /// assert_eq!(KeyParts::new().text(&"a".repeat(64)).as_bytes().len(), 67);
    /// assert_eq!(KeyParts::new().text(&"a".repeat(65)).as_bytes(), b"S:IDvz06rRpbBrv1TzOF79Dg;");
    /// ```
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.readable(b's', text.as_bytes())
    }

    /// Appends bytes, escaped like text, but never equal to text.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.readable(b'b', bytes)
    }

    /// Appends an unsigned integer: the same bytes whatever its type.
    ///
    /// Cast a `usize` `as u128`: then it is the same on every platform.
    pub fn number(&mut self, number: impl Into<u128>) -> &mut Self {
        self.plain('u', number.into())
    }

    /// Appends a signed integer: the same bytes whatever its type, but never those of an unsigned
    /// one.
    pub fn signed(&mut self, number: impl Into<i128>) -> &mut Self {
        self.plain('i', number.into())
    }

    /// Appends an address: an IPv4 address is never the same as an IPv6 one.
    ///
    /// The extractors here unmap addresses first. Unmap an address from elsewhere, if it may be
    /// mapped.
    pub fn address(&mut self, ip: impl Into<IpAddr>) -> &mut Self {
        match ip.into() {
            IpAddr::V4(ip) => self.plain('4', ip),
            IpAddr::V6(ip) => self.plain('6', ip),
        }
    }

    /// Appends the digest of a secret, such as a credential, however short it is.
    pub fn secret(&mut self, secret: &[u8]) -> &mut Self {
        self.digest(b'x', secret)
    }

    /// Appends `None`.
    pub fn absent(&mut self) -> &mut Self {
        self.bytes.extend_from_slice(b"n;");
        self
    }

    /// Appends `Some`; its parts follow.
    pub fn present(&mut self) -> &mut Self {
        self.bytes.extend_from_slice(b"o;");
        self
    }

    /// The bytes written so far, with the prefix.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The written bytes, with the prefix.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a secret that is known only by another digest; never equal to a secret.
    pub(in crate::key) fn digested_secret(&mut self, digest: &[u8]) -> &mut Self {
        self.digest(b'X', digest)
    }

    fn readable(&mut self, kind: u8, value: &[u8]) -> &mut Self {
        if value.len() <= Self::MAX_VALUE_LEN {
            let plain = plain(value);
            if plain.len() <= Self::MAX_VALUE_LEN {
                return self.part(kind, &plain);
            }
        }
        self.digest(kind.to_ascii_uppercase(), value)
    }

    fn digest(&mut self, kind: u8, value: &[u8]) -> &mut Self {
        let digest = self.digest_key.digest(kind, value);
        self.part(kind, &digest)
    }

    /// Appends a value that consists of plain characters.
    fn plain(&mut self, kind: char, value: impl fmt::Display) -> &mut Self {
        // Writing to memory does not fail.
        let _ = write!(self.bytes, "{kind}:{value};");
        self
    }

    fn part(&mut self, kind: u8, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(&[kind, b':']);
        self.bytes.extend_from_slice(value);
        self.bytes.push(b';');
        self
    }
}

impl fmt::Debug for KeyParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyParts({})", self.bytes.escape_ascii())
    }
}

/// Whether a byte needs no escape: not the end of a part, and nothing with a meaning for Redis, its
/// patterns, a shell or a terminal.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~/:@+=,".contains(&byte)
}

/// The bytes, those that are not plain as `%` and two digits.
fn plain(value: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in value {
        match is_plain(byte) {
            true => text.push(byte),
            false => text.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    text
}
