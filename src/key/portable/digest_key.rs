//! The key of the digests of secrets and long parts.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Makes the digests in portable keys: the first 128 bits of HMAC-SHA-256.
///
/// All processes that share a store need the same `DigestKey`. It is made once for each store and
/// cloned for each key, which copies HMAC's state after its key.
#[derive(Clone)]
pub(crate) struct DigestKey(Hmac<Sha256>);

impl DigestKey {
    /// The length of a digest as text.
    pub(super) const TEXT_LEN: usize = 22;

    /// Makes digests under this key.
    ///
    /// It should be random and kept like a password: whoever has it can guess short secrets.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(Mac::new_from_slice(key).expect("a key of any length is valid"))
    }

    /// The digest of these bytes, as base64url. Two kinds of part give different digests of the
    /// same bytes.
    pub(super) fn digest(&self, kind: u8, bytes: &[u8]) -> [u8; Self::TEXT_LEN] {
        const DIGEST_LEN: usize = 16;

        let mac = self.0.clone().chain_update([kind]).chain_update(bytes);
        let digest = mac.finalize().into_bytes();
        let mut text = [0; Self::TEXT_LEN];
        URL_SAFE_NO_PAD
            .encode_slice(&digest[..DIGEST_LEN], &mut text)
            .expect("16 bytes are 22 characters");
        text
    }
}

/// A published key: the digests of guessable secrets can be guessed.
impl Default for DigestKey {
    fn default() -> Self {
        Self::new(b"tollgate: this key is no secret.")
    }
}
