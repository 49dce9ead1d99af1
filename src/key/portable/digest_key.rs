//! The key under which secrets and long parts become digests.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{
    Hmac, Mac,
    digest::{KeyInit, generic_array::GenericArray},
};
use sha2::Sha256;

/// Makes the digests in portable keys: the first 128 bits of HMAC-SHA-256.
///
/// All processes that share a store need the same one. It is made once for each store and cloned
/// for each key, which copies the state that HMAC has after its key.
///
/// # Example: another key, other digests
///
/// ```
/// use tollgate::key::{DigestKey, KeyParts};
///
/// let digest = |key: &DigestKey| KeyParts::after(Vec::new(), key).secret(b"sk-live-1").as_bytes().to_vec();
/// let (ours, theirs) = (DigestKey::new(&[1; 32]), DigestKey::new(&[2; 32]));
/// assert_eq!(digest(&ours), digest(&DigestKey::new(&[1; 32])));
/// assert_ne!(digest(&ours), digest(&theirs));
/// ```
#[derive(Clone)]
pub struct DigestKey(Hmac<Sha256>);

impl DigestKey {
    /// How long a digest is as text.
    pub(super) const TEXT_LEN: usize = 22;

    /// Makes digests under this key.
    ///
    /// It should be random and be kept like a password: with it, a short secret can be guessed.
    pub fn new(key: &[u8; 32]) -> Self {
        // HMAC fills a short key up with zeros. Done here, no length is left that could be wrong.
        let mut block = GenericArray::default();
        block[..key.len()].copy_from_slice(key);
        Self(KeyInit::new(&block))
    }

    /// The digest of these bytes, as base64url; no other kind has the same digest of the same
    /// bytes.
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

/// The key that is published here, which hides nothing that can be guessed.
impl Default for DigestKey {
    fn default() -> Self {
        Self::new(b"tollgate: this key is no secret.")
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestKey").finish_non_exhaustive()
    }
}
