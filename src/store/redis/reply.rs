//! Reads the reply of a script: `frame.lua` says what it is.

use std::ops::Range;

use bytes::Bytes;

use crate::{
    algorithm::{Member, MemberReply, Script, ScriptReply},
    clock::Timestamp,
};

/// Whether a decision has charged its cost.
pub(super) fn is_charged(answer: &Bytes) -> bool {
    answer.first() == Some(&CHARGED)
}

/// The reply to a charge without what members add to it: it is how the value in Redis begins.
pub(super) fn value_of(script: &Script, charge: &Bytes) -> Bytes {
    charge.slice(..charge.len().min(1 + BYTES * (2 + numbers_of(script))))
}

fn numbers_of(script: &Script) -> usize {
    script.members().iter().map(Member::numbers).sum()
}

/// The first byte of the reply to a charge, and of every value.
const CHARGED: u8 = 1;
/// The bytes of a number.
const BYTES: usize = 7;
/// The first byte of any other reply.
const NOT_CHARGED: u8 = 0;

/// What members replied, by one reply about several limits or by one about each.
#[derive(Default)]
pub(super) struct Replies {
    members: Vec<Reply>,
    /// The numbers of all members.
    all: Vec<u64>,
    refused: bool,
}

/// The reply of a member, and where its numbers are.
struct Reply {
    cost: u32,
    admitted: bool,
    charged: bool,
    now: Timestamp,
    at: Timestamp,
    state: Range<usize>,
    told: Range<usize>,
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
            numbers: &self.all[member.state.clone()],
            told: &self.all[member.told.clone()],
        });
        ScriptReply::new(members.collect())
    }

    fn read_one(&mut self, limits: &[&Script], answer: &Bytes, cost: u32) -> Option<()> {
        let members = || limits.iter().flat_map(|limit| limit.members());
        let charged = match *answer.first()? {
            CHARGED => true,
            NOT_CHARGED => false,
            _ => return None,
        };
        let first = self.members.len();
        let mut numbers = Numbers {
            bytes: answer,
            all: &mut self.all,
        };
        let mut fitting = u64::MAX;
        if charged {
            let mut of_limits = Vec::with_capacity(limits.len());
            for limit in limits {
                let begins = self.members.len();
                let ahead = numbers.value(limit, &mut self.members)?;
                of_limits.push((begins..self.members.len(), ahead));
            }
            let now = numbers.next()?;
            for (of_limit, ahead) in of_limits {
                for member in &mut self.members[of_limit] {
                    member.now = Timestamp::from_micros(now + ahead);
                }
            }
            for (reply, member) in self.members[first..].iter_mut().zip(members()) {
                if member.settled {
                    reply.told = numbers.read(member.told())?;
                }
            }
            if members().any(|member| member.in_shadow) {
                fitting = numbers.next()?;
            }
        } else {
            numbers.bytes = &numbers.bytes[1..];
            fitting = numbers.next()?;
            let told: Option<Vec<_>> = members()
                .map(|member| numbers.read(member.told()))
                .collect();
            let times: Option<Vec<(u64, u64)>> = (limits.iter())
                .map(|_| Some((numbers.next()?, numbers.next()?)))
                .collect();
            for (limit, (now, bytes)) in limits.iter().zip(times?) {
                let (now, of_limit) = (Timestamp::from_micros(now), self.members.len());
                match bytes {
                    0 => numbers.nothing(limit, now, &mut self.members),
                    _ => {
                        numbers.value(limit, &mut self.members)?;
                        // When the key expires.
                        numbers.take()?;
                    }
                }
                let of_limit = &mut self.members[of_limit..];
                of_limit.iter_mut().for_each(|reply| reply.now = now);
            }
            for (reply, told) in self.members[first..].iter_mut().zip(told?) {
                reply.told = told;
            }
        }
        let replies = self.members[first..].iter_mut();
        for (number, (reply, member)) in replies.zip(members()).enumerate() {
            let fits = fitting >> number & 1 == 1;
            self.refused |= !fits && !member.in_shadow;
            // A member that admits what another one refuses was not charged, as by a cost of 0. So
            // it is with what is admitted and only looked at.
            let cost = if charged || !fits { cost } else { 0 };
            reply.cost = if member.per_request {
                cost.min(1)
            } else {
                cost
            };
            (reply.admitted, reply.charged) = (fits, charged);
        }
        Some(())
    }
}

/// The numbers of a reply, as they are read.
struct Numbers<'a> {
    bytes: &'a [u8],
    all: &'a mut Vec<u64>,
}

impl Numbers<'_> {
    fn take(&mut self) -> Option<u64> {
        let (bytes, rest) = self.bytes.split_first_chunk::<BYTES>()?;
        self.bytes = rest;
        let mut number = [0; 8];
        number[..BYTES].copy_from_slice(bytes);
        Some(u64::from_le_bytes(number))
    }

    /// A number that a double holds exactly: no script writes others.
    fn next(&mut self) -> Option<u64> {
        const TOO_LARGE: u64 = 1 << 53;
        self.take().filter(|&number| number < TOO_LARGE)
    }

    /// Reads so many numbers; where they are.
    fn read(&mut self, count: usize) -> Option<Range<usize>> {
        let begins = self.all.len();
        for _ in 0..count {
            let number = self.next()?;
            self.all.push(number);
        }
        Some(begins..self.all.len())
    }

    /// Reads a value, without when its key expires; and says how far it is ahead of the clock.
    fn value(&mut self, limit: &Script, replies: &mut Vec<Reply>) -> Option<u64> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        let at = Timestamp::from_micros(self.next()?);
        let ahead = self.next()?;
        for member in limit.members() {
            replies.push(Reply::of(self.read(member.numbers())?, at));
        }
        (*first == CHARGED).then_some(ahead)
    }

    /// The numbers of a state that was never charged.
    fn nothing(&mut self, limit: &Script, at: Timestamp, replies: &mut Vec<Reply>) {
        for member in limit.members() {
            let begins = self.all.len();
            self.all.resize(begins + member.numbers(), 0);
            replies.push(Reply::of(begins..self.all.len(), at));
        }
    }
}

impl Reply {
    /// That of a state that was written at this instant. The rest is read later.
    fn of(state: Range<usize>, at: Timestamp) -> Self {
        Self {
            state,
            at,
            now: at,
            told: 0..0,
            cost: 0,
            admitted: false,
            charged: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_a_double_holds_are_read() {
        let largest = (1_u64 << 53) - 1;
        for number in [0, 1, 1 << 52, largest, largest + 1, (1 << 56) - 1] {
            let mut numbers = Numbers {
                bytes: &number.to_le_bytes()[..BYTES],
                all: &mut Vec::new(),
            };
            let read = numbers.next();
            assert_eq!(read, Some(number).filter(|&number| number <= largest));
            assert_eq!(numbers.next(), None);
        }
    }
}
