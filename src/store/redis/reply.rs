//! What a script answered, in numbers.

use bytes::Bytes;

use crate::{
    algorithm::{Member, Scripted, Told},
    clock::Timestamp,
    store::Verdict,
};

/// Reads the answer of a decision; `None` if it makes no sense.
pub(super) fn read<A: Scripted>(
    algorithm: &A,
    members: &[Member],
    answer: &Bytes,
    (cost, charges): (u32, bool),
) -> Option<Verdict<A::Snapshot>> {
    let (now, rest) = number(answer)?;
    let (fitting, rest) = match members.len() {
        ..=8 => {
            let (bits, rest) = rest.split_first()?;
            (u64::from(*bits), rest)
        }
        _ => number(rest)?,
    };
    let (_kept_until, mut rest) = number(rest)?;
    let charged = charges && cost > 0 && fitting.count_ones() as usize == members.len();
    let told = (members.iter())
        .map(|member| member.told(charged).len())
        .sum();
    let mut numbers = Vec::with_capacity(told);
    for _ in 0..told {
        let (next, others) = number(rest)?;
        numbers.push(next);
        rest = others;
    }
    let now = Timestamp::from_micros(now);
    let mut told = Told::new((members, &numbers), (fitting, now), (cost, charges));
    Some(Verdict {
        admitted: told.is_admitted(),
        snapshot: algorithm.read(&mut told)?,
    })
}

/// A whole number that a double holds exactly.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    const TOO_LARGE: f64 = (1_u64 << 54) as f64;
    let (bytes, rest) = bytes.split_first_chunk()?;
    let number = f64::from_le_bytes(*bytes);
    let is_whole = (0.0..TOO_LARGE).contains(&number) && number.fract() == 0.0;
    is_whole.then_some((number as u64, rest))
}
