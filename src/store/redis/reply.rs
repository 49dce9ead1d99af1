//! Reads the reply of a script: `frame.lua` says what it is.

use bytes::Bytes;

use crate::{
    algorithm::{MemberReply, Script, ScriptReply},
    clock::Timestamp,
};

/// Whether a decision has charged its cost.
pub(super) fn is_charged(answer: &Bytes) -> bool {
    answer
        .first()
        .is_some_and(|first| first & CHARGED == CHARGED)
}

/// Whether a value has a tail, which only the script that holds can read.
pub(super) fn has_tail(answer: &Bytes) -> bool {
    answer[..] == [HAS_TAIL]
}

/// How the value in Redis begins after this charge: with all but the tail and when its key expires.
pub(super) fn value_of(script: &Script, charge: &Bytes) -> Bytes {
    let members = script.members();
    let states: usize = members.iter().map(|member| member.state.len()).sum();
    let told: usize = members.iter().map(|member| member.told.len()).sum();
    let told = if charge.first() == Some(&CHARGED) {
        0
    } else {
        told
    };
    let start = (1 + BYTES * (3 + told)).min(charge.len());
    charge.slice(start..(start + 1 + BYTES * (2 + states)).min(charge.len()))
}

/// The first byte of the reply to a charge, and of every value.
const CHARGED: u8 = 1;
/// The first byte of the reply to a charge by a script that holds.
const CHARGED_BESIDE: u8 = 3;
/// The reply of a script that does not hold, where others do.
const HAS_TAIL: u8 = 2;
/// The first byte of any other reply.
const NOT_CHARGED: u8 = 0;
/// The bytes of a number.
const BYTES: usize = 7;
/// How many numbers say what is held beside the state of a member.
const HELD: usize = 6;

/// What members replied, by one reply about several limits or by one about each.
#[derive(Default)]
pub(super) struct Replies {
    members: Vec<Reply>,
    refused: bool,
}

/// The reply of a member.
struct Reply {
    cost: u32,
    admitted: bool,
    charged: bool,
    now: Timestamp,
    at: Timestamp,
    numbers: Vec<u64>,
    told: Vec<u64>,
    held: Vec<u64>,
}

impl Replies {
    /// Reads the replies of decisions by these limits; `None` if they are none.
    pub(super) fn read(limits: &[&Script], answers: &[Bytes], cost: u32) -> Option<Self> {
        let mut replies = Self::default();
        match answers.len() == limits.len() {
            true => limits
                .iter()
                .zip(answers)
                .try_for_each(|(limit, answer)| replies.read_one(&[limit], answer, cost))?,
            false => replies.read_one(limits, answers.first()?, cost)?,
        }
        Some(replies)
    }

    /// Whether all limits that are not in shadow admit the cost.
    pub(super) fn is_admitted(&self) -> bool {
        !self.refused
    }

    pub(super) fn reply(&self) -> ScriptReply<'_> {
        let members = self.members.iter().map(|member| MemberReply {
            cost: member.cost,
            admitted: member.admitted,
            charged: member.charged,
            now: member.now,
            at: member.at,
            numbers: &member.numbers,
            told: &member.told,
            held: &member.held,
        });
        ScriptReply::new(members.collect())
    }

    fn read_one(&mut self, limits: &[&Script], answer: &Bytes, cost: u32) -> Option<()> {
        let mut numbers = Numbers(answer);
        let (charged, tells) = match numbers.byte()? {
            CHARGED => (true, false),
            CHARGED_BESIDE => (true, true),
            NOT_CHARGED => (false, true),
            _ => return None,
        };
        let mut fitting = numbers.next()?;
        let mut told = Vec::new();
        for member in limits.iter().flat_map(|limit| limit.members()) {
            told.push(numbers.read(if tells { member.told.len() } else { 0 })?);
        }
        let mut told = told.into_iter();
        let of_limit = |_| Some((numbers.next()?, numbers.next()?));
        let times: Option<Vec<_>> = limits.iter().map(of_limit).collect();
        for (limit, (now, bytes)) in limits.iter().zip(times?) {
            let (value, rest) = numbers.0.split_at_checked(bytes as usize)?;
            numbers.0 = rest;
            let (now, mut value) = (Timestamp::from_micros(now), Numbers(value));
            let mut at = now;
            if bytes > 0 {
                // A value begins like the reply to a charge.
                value.byte().filter(|&first| first == CHARGED)?;
                at = Timestamp::from_micros(value.next()?);
                // How far it is ahead of the clock: so is `now`.
                value.next()?;
            }
            let members = limit.members();
            let states: usize = members.iter().map(|member| member.state.len()).sum();
            let expiry = if charged { 0 } else { BYTES };
            let mut tail = Numbers(value.0.get(BYTES * states + expiry..).unwrap_or_default());
            for (member, told) in members.iter().zip(&mut told) {
                let fits = fitting & 1 == 1;
                fitting >>= 1;
                self.refused |= !fits && !member.in_shadow;
                // A member that admits what another one refuses was not charged, as by a cost of 0.
                // So it is with what is admitted and only looked at.
                let cost = if charged || !fits { cost } else { 0 };
                self.members.push(Reply {
                    cost: if member.per_request {
                        cost.min(1)
                    } else {
                        cost
                    },
                    admitted: fits,
                    charged,
                    now,
                    at,
                    numbers: match bytes {
                        // A state that was never charged.
                        0 => vec![0; member.state.len()],
                        _ => value.read(member.state.len())?,
                    },
                    told,
                    held: match tail.0 {
                        [] => Vec::new(),
                        _ => tail.read(HELD)?,
                    },
                });
            }
        }
        Some(())
    }
}

/// The numbers of a reply, as they are read.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// A number that a double holds exactly: no script writes others.
    fn next(&mut self) -> Option<u64> {
        const TOO_LARGE: u64 = 1 << 53;
        let (bytes, rest) = self.0.split_first_chunk::<BYTES>()?;
        self.0 = rest;
        let mut number = [0; 8];
        number[..BYTES].copy_from_slice(bytes);
        Some(u64::from_le_bytes(number)).filter(|&number| number < TOO_LARGE)
    }

    fn read(&mut self, count: usize) -> Option<Vec<u64>> {
        (0..count).map(|_| self.next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_a_double_holds_are_read() {
        let largest = (1_u64 << 53) - 1;
        for number in [0, 1, 1 << 52, largest, largest + 1, (1 << 56) - 1] {
            let bytes = number.to_le_bytes();
            let mut numbers = Numbers(&bytes[..BYTES]);
            let read = numbers.next();
            assert_eq!(read, Some(number).filter(|&number| number <= largest));
            assert_eq!(numbers.next(), None);
        }
    }
}
