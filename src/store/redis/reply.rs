//! Reads the reply of a script.

use bytes::Bytes;

use crate::{
    algorithm::{Member, ScriptReply, Scripted},
    clock::Timestamp,
    store::Verdict,
};

/// Reads the reply of a decision about one key; `None` if it is not one.
pub(super) fn read<A: Scripted>(
    algorithm: &A,
    members: &[Member],
    answer: &Bytes,
    cost: u32,
) -> Option<Verdict<A::Snapshot>> {
    read_with(members, answer, cost, |reply| algorithm.read(reply))
}

/// Whether a decision has charged its cost.
pub(super) fn is_charged(answer: &Bytes) -> bool {
    answer.first() == Some(&CHARGED)
}

/// The reply to a charge without that of members in shadow: it is how the value in Redis begins.
pub(super) fn kept_of(members: &[Member], charge: &Bytes) -> Bytes {
    let numbers: usize = members.iter().map(|member| member.state.len()).sum();
    charge.slice(..charge.len().min(1 + 8 * (1 + numbers)))
}

/// Whether a decision has admitted its cost.
pub(super) fn is_admitted(members: &[Member], answer: &Bytes) -> bool {
    let verdict = read_with(members, answer, 0, |_| Some(()));
    verdict.is_some_and(|verdict| verdict.admitted)
}

/// The first byte of the reply to a charge, and of every state.
const CHARGED: u8 = 1;
/// The first byte of any other reply.
const NOT_CHARGED: u8 = 0;

/// Reads the reply of a decision with these members.
pub(super) fn read_with<T>(
    members: &[Member],
    answer: &Bytes,
    cost: u32,
    read: impl FnOnce(&mut ScriptReply<'_>) -> Option<T>,
) -> Option<Verdict<T>> {
    let (first, rest) = answer.split_first()?;
    let charged = match *first {
        CHARGED => true,
        NOT_CHARGED => false,
        _ => return None,
    };
    let (now, mut rest) = number(rest)?;
    let mut admitting = (1 << members.len()) - 1;
    if !charged {
        (admitting, rest) = number(rest)?;
    }
    let mut replied = (members.iter())
        .map(|member| member.replied(charged).len())
        .sum();
    if charged && members.iter().any(|member| member.in_shadow) {
        let in_shadow = members
            .iter()
            .map(|member| member.replied_in_shadow().len());
        replied += in_shadow.sum::<usize>();
    }
    let mut numbers = Vec::with_capacity(replied);
    for _ in 0..replied {
        let (next, others) = number(rest)?;
        numbers.push(next);
        rest = others;
    }
    let now = Timestamp::from_micros(now);
    let mut reply = ScriptReply::new((members, &numbers), (admitting, now), (cost, charged));
    Some(Verdict {
        admitted: reply.is_admitted(),
        snapshot: read(&mut reply)?,
    })
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (bytes, rest) = bytes.split_first_chunk()?;
    Some((whole(f64::from_le_bytes(*bytes))?, rest))
}

/// A whole number, so small that a double holds it exactly.
fn whole(number: f64) -> Option<u64> {
    const TOO_LARGE: u64 = 1 << 54;
    // `as` saturates, and makes NaN 0; the way back rejects NaN, negatives and fractions.
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
