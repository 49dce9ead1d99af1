//! Reads the reply of a script: `frame.lua` says what it is.

use std::slice;

use bytes::Bytes;

use crate::{
    algorithm::{MemberReply, Override, Script},
    clock::Timestamp,
};

use super::arguments::{KeyQuery, units_of};

/// Whether a decision has charged its cost.
pub(super) fn is_charged(answer: &Bytes) -> bool {
    let kinds = [CHARGED, CHARGED_AND_MORE, CHARGED_AND_ALL];
    answer.first().is_some_and(|kind| kinds.contains(kind))
}

/// Whether a value has a tail, which only the script that holds can read.
pub(super) fn has_tail(answer: &Bytes) -> bool {
    answer[..] == [HAS_TAIL]
}

/// What decides about a key instead of its limit, as a value.
pub(super) fn value_of_override(overriding: Override) -> Vec<u8> {
    let kind = match overriding.lets_through {
        true => LETS_THROUGH,
        false => REFUSES,
    };
    let until = overriding.until.as_micros().to_le_bytes();
    [&[kind], &until[..BYTES]].concat()
}

/// What has decided instead of a limit, and when; none, if it was the limit.
pub(super) fn overridden(answer: &Bytes) -> Option<(Override, Timestamp)> {
    let (kind, mut rest) = answer.split_first()?;
    let lets_through = *kind == LETS_THROUGH;
    (lets_through || *kind == REFUSES).then_some(())?;
    let [until, now] = [number(&mut rest)?, number(&mut rest)?].map(Timestamp::from_micros);
    Some((
        Override {
            until,
            lets_through,
        },
        now,
    ))
}

/// The value in Redis after this charge.
pub(super) fn value_of(script: &Script, charge: &Bytes) -> Bytes {
    let extra = script.members().iter().map(|member| member.extra.len());
    let start = match charge.first() {
        Some(&CHARGED) => 0,
        Some(&CHARGED_AND_MORE) => 1 + BYTES * 3,
        _ => 1 + BYTES * (3 + extra.sum::<usize>()),
    };
    charge.slice(start.min(charge.len())..)
}

/// The reply to a later cost that this charge has left no room for, by a limit of one member that
/// keeps no list.
pub(super) fn refused_after(charge: &Bytes) -> Option<Bytes> {
    // No member has room.
    let mut refused = vec![NOT_CHARGED; 1 + BYTES];
    if charge.first() == Some(&CHARGED) {
        refused.extend_from_slice(charge.get(1..1 + BYTES)?);
        refused.extend_from_slice(&(charge.len() as u64).to_le_bytes()[..BYTES]);
        refused.extend_from_slice(charge);
    } else {
        refused.extend_from_slice(charge.get(1 + BYTES..)?);
    }
    Some(refused.into())
}

/// What a member holds of a lease.
#[derive(Debug, Clone)]
pub(super) struct HeldByMember {
    /// How many parts a unit has.
    unit: u64,
    pub(super) generation: u64,
}

/// What a call that leases replies at its end: how many units are held, and what each member holds
/// of them, in its later generation.
pub(super) fn lease_of(
    (held, reply): (&Bytes, &Bytes),
    members: usize,
) -> Option<(u32, Vec<HeldByMember>)> {
    let (units, mut parts) = held.split_first_chunk()?;
    let units = u32::from_le_bytes(*units);
    let tail = reply.len().checked_sub(BYTES * HELD * members)?;
    let of_member = |member: usize| {
        // Start, end and amount of the later generation are the last ones.
        let later = tail + BYTES * (HELD * member + 3);
        let (unit, generation) = (number(&mut parts)?, number(&mut &reply[later..])?);
        (generation > 0).then_some(HeldByMember { unit, generation })
    };
    let members = (0..members).map(of_member).collect::<Option<_>>()?;
    (units > 0).then_some((units, members))
}

/// That reply as if so many units were not held.
pub(super) fn without_held(
    reply: &Bytes,
    units: u32,
    (script, held): (&Script, &[HeldByMember]),
) -> Bytes {
    let (says_all, mut reply) = (reply.first() == Some(&CHARGED_AND_ALL), reply.to_vec());
    let mut held_at = reply.len().saturating_sub(BYTES * HELD * held.len());
    let mut subtract = |at: usize, amount: u64| {
        let counted = &mut reply[at..at + BYTES];
        let rest = number(&mut &*counted).unwrap_or_default();
        let rest = rest.saturating_sub(amount).to_le_bytes();
        counted.copy_from_slice(&rest[..BYTES]);
    };
    let (units, mut counted_at) = (u64::from(units), 1 + BYTES);
    for (member, held) in script.members().iter().zip(held) {
        held_at += BYTES * HELD;
        // The last number of its tail.
        subtract(held_at - BYTES, units.saturating_mul(held.unit));
        // A member with a list says first how many units it counts.
        if member.has_list() && says_all {
            subtract(counted_at, units);
            counted_at += BYTES * member.extra.len();
        }
    }
    reply.into()
}

/// The bytes of a value without a tail.
fn value_len(script: &Script) -> usize {
    let states = script.members().iter().map(|member| member.state.len());
    1 + BYTES * (3 + states.sum::<usize>())
}

/// The first byte of every value, and so of a reply that is only the values.
const CHARGED: u8 = 1;
/// The first byte of the reply to a charge that says more than the values.
pub(super) const CHARGED_AND_MORE: u8 = 4;
/// Of one that also says what members tell of their lists.
pub(super) const CHARGED_AND_ALL: u8 = 3;
/// The reply of a script that does not hold, where others do.
const HAS_TAIL: u8 = 2;
/// The first byte where every cost is refused, whatever the limit says.
const REFUSES: u8 = 5;
/// The first byte where everything is let through.
const LETS_THROUGH: u8 = 6;
/// The first byte of any other reply.
pub(super) const NOT_CHARGED: u8 = 0;
/// The bytes of a number.
pub(super) const BYTES: usize = 7;
/// How many numbers say what is held beside the state of a member.
const HELD: usize = 6;

/// What members replied, by one reply about several limits or by one about each.
pub(super) struct Replies {
    pub(super) members: Vec<MemberReply>,
    /// Whether all limits that are not in shadow admit the cost.
    pub(super) admitted: bool,
}

impl Replies {
    /// Reads the replies of decisions by these limits; `None` if they are none.
    pub(super) fn read(limits: &[KeyQuery], answers: &[Bytes], cost: u32) -> Option<Self> {
        let (members, admitted) = (Vec::new(), true);
        let mut replies = Self { members, admitted };
        match answers.len() == limits.len() {
            true => limits.iter().zip(answers).try_for_each(|(limit, answer)| {
                replies.read_one(slice::from_ref(limit), answer, cost)
            })?,
            false => replies.read_one(limits, answers.first()?, cost)?,
        }
        Some(replies)
    }

    /// Whether units are held beside a list.
    pub(super) fn hold_beside_a_list(&self) -> bool {
        let mut lists = self.members.iter().filter(|it| !it.extra.is_empty());
        lists.any(|it| it.held.chunks_exact(3).any(|held| held[2] > 0))
    }

    fn read_one(&mut self, queries: &[KeyQuery], answer: &Bytes, cost: u32) -> Option<()> {
        let limits: Vec<_> = queries.iter().map(|query| &query.scripts.script).collect();
        if let Some((overriding, now)) = overridden(answer) {
            // Of several limits each is asked by itself then.
            let [limit] = *limits else { return None };
            let is_enforced = limit.members().iter().any(|member| !member.in_shadow);
            self.admitted &= overriding.lets_through || cost == 0 || !is_enforced;
            self.members.push(MemberReply {
                cost,
                now,
                at: now,
                admitted: overriding.lets_through,
                overridden: Some(overriding),
                ..MemberReply::default()
            });
            return Some(());
        }
        let charged = is_charged(answer);
        let mut rest = &answer[..];
        let (mut fitting, mut extra, mut of_limits) = (u64::MAX, Vec::new(), Vec::new());
        if answer.first() != Some(&CHARGED) {
            let kind = *rest.split_off_first()?;
            (charged || kind == NOT_CHARGED).then_some(())?;
            fitting = number(&mut rest)?;
            for member in limits.iter().flat_map(|limit| limit.members()) {
                let has_extra = kind != CHARGED_AND_MORE;
                let count = if has_extra { member.extra.len() } else { 0 };
                extra.push(numbers(&mut rest, count)?);
            }
            for _ in &limits {
                of_limits.push((number(&mut rest)?, number(&mut rest)?));
            }
        }
        let (mut extra, mut of_limits) = (extra.into_iter(), of_limits.into_iter());
        for &limit in &limits {
            let (now, bytes) = match of_limits.next() {
                Some((now, bytes)) => (Some(now), bytes as usize),
                // The tail of a single limit is the rest.
                None if limits.len() == 1 => (None, rest.len()),
                None => (None, value_len(limit)),
            };
            let mut value = rest.split_off(..bytes)?;
            let mut tail = value.split_off(value_len(limit)..).unwrap_or_default();
            let mut at = now;
            if bytes > 0 {
                // A value begins like the reply to a charge.
                (value.split_off_first()? == &CHARGED).then_some(())?;
                at = Some(number(&mut value)?);
                // How far it is ahead of the clock: so is `now`. And when its key expires.
                numbers(&mut value, 2)?;
            }
            let [now, at] = [now.or(at)?, at?].map(Timestamp::from_micros);
            for member in limit.members() {
                let mut fits = fitting & 1 == 1;
                fitting >>= 1;
                self.admitted &= fits || member.in_shadow;
                // What others refuse is not asked of one in shadow.
                fits |= member.in_shadow && !charged;
                // A member that admits what another one refuses was not charged, as by a cost of 0.
                // So it is with what is admitted and only looked at.
                let cost = if charged || !fits { cost } else { 0 };
                self.members.push(MemberReply {
                    cost: units_of(member, cost),
                    admitted: fits,
                    charged,
                    now,
                    at,
                    numbers: match bytes {
                        // A state that was never charged.
                        0 => vec![0; member.state.len()],
                        _ => numbers(&mut value, member.state.len())?,
                    },
                    extra: extra.next().unwrap_or_default(),
                    held: match tail {
                        [] => Vec::new(),
                        _ => numbers(&mut tail, HELD)?,
                    },
                    overridden: None,
                });
            }
        }
        Some(())
    }
}

/// Takes a number from these bytes: one that a double holds exactly, as no script writes others.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    const TOO_LARGE: u64 = 1 << 53;
    let mut number = [0; 8];
    number[..BYTES].copy_from_slice(bytes.split_off(..BYTES)?);
    Some(u64::from_le_bytes(number)).filter(|&number| number < TOO_LARGE)
}

fn numbers(bytes: &mut &[u8], count: usize) -> Option<Vec<u64>> {
    (0..count).map(|_| number(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_a_double_holds_are_read() {
        let largest = (1_u64 << 53) - 1;
        for written in [0, 1, 1 << 52, largest, largest + 1, (1 << 56) - 1] {
            let bytes = written.to_le_bytes();
            let mut bytes = &bytes[..BYTES];
            let read = number(&mut bytes);
            assert_eq!(read, Some(written).filter(|&number| number <= largest));
            assert_eq!(number(&mut bytes), None);
        }
    }
}
