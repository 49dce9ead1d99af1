//! What a script answered, in numbers.

use bytes::Bytes;

use crate::{
    algorithm::{Member, Scripted, Told},
    clock::Timestamp,
    store::Verdict,
};

/// Reads the answer of a decision about one key; `None` if it makes no sense.
pub(super) fn read<A: Scripted>(
    algorithm: &A,
    members: &[Member],
    answer: &Bytes,
    cost: u32,
) -> Option<Verdict<A::Snapshot>> {
    read_with(members, answer, cost, |told| algorithm.read(told))
}

/// Whether a decision has charged its cost.
pub(super) fn is_charged(answer: &Bytes) -> bool {
    double(answer).is_some_and(|(first, _)| first >= 0.0)
}

/// Whether a decision has let its cost through.
pub(super) fn is_admitted(members: &[Member], answer: &Bytes) -> bool {
    let verdict = read_with(members, answer, 0, |_| Some(()));
    verdict.is_some_and(|verdict| verdict.admitted)
}

/// Reads the answer of a decision by what these members are told.
pub(super) fn read_with<T>(
    members: &[Member],
    answer: &Bytes,
    cost: u32,
    read: impl FnOnce(&mut Told<'_>) -> Option<T>,
) -> Option<Verdict<T>> {
    let (first, mut rest) = double(answer)?;
    // The time, if it was charged; else the time counted down from -1, and who admits.
    let charged = first >= 0.0;
    let (now, mut admitting) = (first, (1 << members.len()) - 1);
    let now = whole(if charged { now } else { -1.0 - now })?;
    if !charged {
        (admitting, rest) = number(rest)?;
    }
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
    let mut told = Told::new((members, &numbers), (admitting, now), (cost, charged));
    Some(Verdict {
        admitted: told.is_admitted(),
        snapshot: read(&mut told)?,
    })
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = double(bytes)?;
    Some((whole(number)?, rest))
}

fn double(bytes: &[u8]) -> Option<(f64, &[u8])> {
    let (bytes, rest) = bytes.split_first_chunk()?;
    Some((f64::from_le_bytes(*bytes), rest))
}

/// A whole number, so small that a double holds it exactly.
fn whole(number: f64) -> Option<u64> {
    const TOO_LARGE: u64 = 1 << 54;
    // What is negative, too large, or not a number is held at the next number there is, and is
    // another one then.
    let whole = number as u64;
    (whole < TOO_LARGE && whole as f64 == number).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_that_a_double_holds_are_read() {
        let largest = ((1_u64 << 54) - 2) as f64;
        for number in [0.0, -0.0, 1.0, 1e15, largest] {
            assert_eq!(whole(number), Some(number as u64), "{number}");
        }
        let others = [-1.0, 0.5, -0.5, 1e15 + 0.5, largest + 2.0, 1e300];
        for number in others
            .into_iter()
            .chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY])
        {
            assert_eq!(whole(number), None, "{number}");
        }
    }
}
