//! The keys and the arguments of a script: numbers are doubles.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;

use crate::{
    algorithm::{PolicyId, Scripted},
    key::{KeyParts, PortableKey},
};

use super::{ARGUMENTS_LEN, Shared, scripts::Scripts};

impl Shared {
    /// The key of a bucket, and the further keys of its algorithm, all in one slot.
    pub(super) fn keys<K: PortableKey>(
        &self,
        policy: PolicyId,
        scripts: &Scripts,
        key: &K,
    ) -> Vec<Bytes> {
        with_further_keys(Bytes::from(self.bucket(policy, scripts, key)), scripts)
    }

    /// The key of a bucket, in a buffer with room for the arguments of a call.
    pub(super) fn bucket<K: PortableKey>(
        &self,
        policy: PolicyId,
        scripts: &Scripts,
        key: &K,
    ) -> Vec<u8> {
        let len = self.key_start.len() + scripts.layout.len() + 96;
        let mut start = Vec::with_capacity(len + ARGUMENTS_LEN);
        start.extend_from_slice(&self.key_start);
        start.extend_from_slice(scripts.layout.as_bytes());
        start.push(b':');
        start.extend_from_slice(&encode_id(policy));
        start.push(b':');
        let mut parts = KeyParts::after(start, &self.digest_key);
        key.write_to(&mut parts);
        let mut bucket = parts.into_bytes();
        bucket.push(b'}');
        bucket
    }

    /// The keys and the arguments of a call about a cost, in one allocation.
    pub(super) fn call<A: Scripted, K: PortableKey>(
        &self,
        algorithm: &A,
        scripts: &Scripts,
        key: &K,
        cost: u32,
    ) -> (Vec<Bytes>, Arguments) {
        let mut call = self.bucket(algorithm.policy_id(), scripts, key);
        let bucket_len = call.len();
        push_numbers(&mut call, cost, self.now(), |numbers| {
            algorithm.parameters(&mut |parameter| push(numbers, parameter as f64));
        });
        let mut bucket = Bytes::from(call);
        let numbers = bucket.split_off(bucket_len);
        (with_further_keys(bucket, scripts), numbers.into())
    }

    /// The time of the store's own clock; `None` if the server's counts.
    pub(super) fn now(&self) -> Option<f64> {
        (self.clock.as_ref()).map(|now| now().as_micros() as f64)
    }
}

/// The arguments of a script. The scripts in the folder `sent` list them.
#[derive(Debug, Clone)]
pub(super) struct Arguments {
    first: Bytes,
    /// The reply to the charge, if the script takes it back; or those of further states.
    others: Vec<Bytes>,
}

impl<B: Into<Bytes>> From<B> for Arguments {
    fn from(numbers: B) -> Self {
        Self {
            first: numbers.into(),
            others: Vec::new(),
        }
    }
}

impl Arguments {
    /// The arguments of the script that takes a charge back.
    pub(super) fn taking_back(charge: Bytes, numbers: Vec<u8>) -> Self {
        Self {
            first: numbers.into(),
            others: vec![charge],
        }
    }

    /// The arguments of a script about several states, one for each.
    pub(super) fn of_several(mut each: Vec<Bytes>) -> Self {
        let first = each.remove(0);
        Self {
            first,
            others: each,
        }
    }

    /// In the order of `ARGV`.
    pub(super) fn values(&self) -> impl Iterator<Item = Bytes> {
        [&self.first].into_iter().chain(&self.others).cloned()
    }
}

/// A policy's id in base64url.
fn encode_id(policy: PolicyId) -> [u8; 11] {
    let mut letters = [0; 11];
    let written = URL_SAFE_NO_PAD.encode_slice(policy.as_u64().to_be_bytes(), &mut letters);
    written.expect("8 bytes are 11 letters");
    letters
}

/// A cost, then what `write` appends, then the time if the caller's counts; all as doubles.
pub(super) fn push_numbers(
    numbers: &mut Vec<u8>,
    cost: u32,
    now: Option<f64>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    push(numbers, f64::from(cost));
    write(numbers);
    if let Some(now) = now {
        push(numbers, now);
    }
}

/// The arguments of a settlement of `held` units, of which so many were spent: see `compose`.
pub(super) fn push_settlement(
    numbers: &mut Vec<u8>,
    (held, spent): (u32, u32),
    now: Option<f64>,
    parameters: &[u8],
    admission: &[u8],
) {
    push_numbers(numbers, spent, now, |numbers| {
        numbers.extend_from_slice(parameters);
        numbers.extend_from_slice(admission);
        push(numbers, f64::from(held));
    });
}

/// The arguments of a renewal: of `held` places, `wanted` are to be held from now on.
pub(super) fn push_renewal(
    numbers: &mut Vec<u8>,
    (held, wanted): (u64, u64),
    now: Option<f64>,
    parameters: &[u8],
    admission: &[u8],
) {
    push_numbers(numbers, 0, now, |numbers| {
        numbers.extend_from_slice(parameters);
        numbers.extend_from_slice(admission);
        push(numbers, held as f64);
        push(numbers, wanted as f64);
    });
}

/// The key of a bucket, and its further keys: the same with a number appended.
pub(super) fn with_further_keys(bucket: Bytes, scripts: &Scripts) -> Vec<Bytes> {
    let mut keys = Vec::with_capacity(1 + scripts.further_keys);
    keys.push(bucket);
    for number in 1..=scripts.further_keys {
        let mut further = keys[0].to_vec();
        further.extend_from_slice(format!("{number}").as_bytes());
        keys.push(Bytes::from(further));
    }
    keys
}

pub(super) fn bytes_of(numbers: &[f64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * numbers.len());
    numbers.iter().for_each(|&number| push(&mut bytes, number));
    bytes
}

pub(super) fn push(arguments: &mut Vec<u8>, number: f64) {
    arguments.extend_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_11_letters() {
        let encoded = |id| String::from_utf8(encode_id(PolicyId::from_bits(id)).to_vec()).unwrap();
        assert_eq!(encoded(0), "AAAAAAAAAAA");
        assert_eq!(encoded(u64::MAX), "__________8");
        assert_eq!(encoded(0x0123_4567_89ab_cdef), "ASNFZ4mrze8");
    }
}
