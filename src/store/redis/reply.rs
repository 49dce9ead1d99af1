//! Reads the reply of a script: `frame.lua` says what it is.

use bytes::Bytes;

use crate::{
    algorithm::{Member, MemberReply, Script, ScriptReply, Scripted},
    clock::Timestamp,
    store::Verdict,
};

/// Reads the reply of a decision about one key; `None` if it is not one.
pub(super) fn read<A: Scripted>(
    algorithm: &A,
    script: &Script,
    answer: &Bytes,
    cost: u32,
) -> Option<Verdict<A::Snapshot>> {
    read_with(&[script], answer, cost, |reply| algorithm.read(reply))
}

/// Whether a decision has charged its cost.
pub(super) fn is_charged(answer: &Bytes) -> bool {
    answer.first() == Some(&CHARGED)
}

/// The reply to a charge without what members add to it: it is how the value in Redis begins.
pub(super) fn value_of(script: &Script, charge: &Bytes) -> Bytes {
    charge.slice(..charge.len().min(1 + BYTES * (2 + numbers_of(script))))
}

/// Whether a decision has admitted its cost.
pub(super) fn is_admitted(script: &Script, answer: &Bytes) -> bool {
    let verdict = read_with(&[script], answer, 0, |_| Some(()));
    verdict.is_some_and(|verdict| verdict.admitted)
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

/// Where the numbers of a member begin, and those of what it told; and when they were written.
struct Place {
    state: usize,
    told: usize,
    now: Timestamp,
    at: Timestamp,
}

/// Reads the reply of a decision by these limits.
pub(super) fn read_with<T>(
    limits: &[&Script],
    answer: &Bytes,
    cost: u32,
    read: impl FnOnce(&mut ScriptReply<'_>) -> Option<T>,
) -> Option<Verdict<T>> {
    let members = || limits.iter().flat_map(|limit| limit.members());
    let charged = match *answer.first()? {
        CHARGED => true,
        NOT_CHARGED => false,
        _ => return None,
    };
    let mut numbers = Numbers {
        bytes: answer,
        all: Vec::with_capacity(answer.len() / BYTES + 8),
    };
    let has_shadows = members().any(|member| member.in_shadow);
    let mut fitting = u64::MAX;
    let mut places: Vec<Place> = Vec::with_capacity(members().count());
    if charged {
        let mut ahead = Vec::with_capacity(limits.len());
        for limit in limits {
            ahead.push((limit.members().len(), numbers.value(limit, &mut places)?));
        }
        let (now, mut of_limits) = (numbers.next()?, places.iter_mut());
        for (members, ahead) in ahead {
            for place in of_limits.by_ref().take(members) {
                place.now = Timestamp::from_micros(now + ahead);
            }
        }
        for (place, member) in places.iter_mut().zip(members()) {
            if member.settled {
                place.told = numbers.read(member.told())?;
            }
        }
        if has_shadows {
            fitting = numbers.next()?;
        }
    } else {
        numbers.bytes = &numbers.bytes[1..];
        fitting = numbers.next()?;
        let told: Option<Vec<usize>> = members()
            .map(|member| numbers.read(member.told()))
            .collect();
        let times: Option<Vec<(u64, u64)>> = (limits.iter())
            .map(|_| Some((numbers.next()?, numbers.next()?)))
            .collect();
        for (limit, (now, bytes)) in limits.iter().zip(times?) {
            let (now, of_limit) = (Timestamp::from_micros(now), places.len());
            match bytes {
                0 => numbers.nothing(limit, now, &mut places),
                _ => {
                    numbers.value(limit, &mut places)?;
                    // When the key expires.
                    numbers.take()?;
                }
            }
            places[of_limit..]
                .iter_mut()
                .for_each(|place| place.now = now);
        }
        for (place, told) in places.iter_mut().zip(told?) {
            place.told = told;
        }
    }
    let fits = |number: usize| fitting >> number & 1 == 1;
    let admitted = (members().enumerate()).all(|(number, member)| member.in_shadow || fits(number));
    let replied = members().enumerate().zip(&places);
    let replied = replied.map(|((number, member), place)| {
        // A member that admits what another one refuses was not charged, as by a cost of 0. So it
        // is with what is admitted and only looked at.
        let is_about_the_cost = charged || !fits(number);
        let cost = if is_about_the_cost { cost } else { 0 };
        let told = match !charged || member.settled {
            true => &numbers.all[place.told..][..member.told()],
            false => &[],
        };
        MemberReply {
            cost: if member.per_request {
                cost.min(1)
            } else {
                cost
            },
            admitted: fits(number),
            charged,
            now: place.now,
            at: place.at,
            numbers: &numbers.all[place.state..][..member.numbers()],
            told,
        }
    });
    let mut reply = ScriptReply::new(replied.collect());
    Some(Verdict {
        admitted,
        snapshot: read(&mut reply)?,
    })
}

/// The numbers of a reply, as they are read.
struct Numbers<'a> {
    bytes: &'a [u8],
    all: Vec<u64>,
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

    /// Reads so many numbers; where they begin.
    fn read(&mut self, count: usize) -> Option<usize> {
        let begins = self.all.len();
        for _ in 0..count {
            let number = self.next()?;
            self.all.push(number);
        }
        Some(begins)
    }

    /// Reads a value, without when its key expires; and says how far it is ahead of the clock.
    fn value(&mut self, limit: &Script, places: &mut Vec<Place>) -> Option<u64> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        let at = Timestamp::from_micros(self.next()?);
        let ahead = self.next()?;
        for member in limit.members() {
            let state = self.read(member.numbers())?;
            places.push(Place {
                state,
                told: 0,
                now: at,
                at,
            });
        }
        (*first == CHARGED).then_some(ahead)
    }

    /// The numbers of a state that was never charged.
    fn nothing(&mut self, limit: &Script, at: Timestamp, places: &mut Vec<Place>) {
        for member in limit.members() {
            let state = self.all.len();
            self.all.extend(std::iter::repeat_n(0, member.numbers()));
            places.push(Place {
                state,
                told: 0,
                now: at,
                at,
            });
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
                all: Vec::new(),
            };
            let read = numbers.next();
            assert_eq!(read, Some(number).filter(|&number| number <= largest));
            assert_eq!(numbers.next(), None);
        }
    }
}
