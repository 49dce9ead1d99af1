//! What a script replied.

use crate::clock::Timestamp;

use super::Member;

/// What a script replied to a decision, member by member.
#[derive(Debug)]
pub struct ScriptReply<'a> {
    now: Timestamp,
    cost: u32,
    all_admit: bool,
    /// One bit for each member, set if it admits. The lowest is the next member's.
    admitting: u64,
    charged: bool,
    members: std::slice::Iter<'a, Member>,
    numbers: &'a [u64],
    /// What the members in shadow replied to a charge.
    in_shadow: &'a [u64],
    /// What the only member replied, if this was made by `of_one`.
    only: Option<MemberReply<'a>>,
}

/// How one member of a tuple decided, and what it replied.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MemberReply<'a> {
    /// The cost that this is about: 0 if it is admitted and was not charged.
    pub cost: u32,
    /// Whether this member admits it.
    pub admitted: bool,
    /// Whether it was charged: then the numbers are those of its state, and not those of
    /// [`Script::replies`](super::Script::replies).
    pub charged: bool,
    /// The numbers of its state right after the decision, or those that it replies instead.
    pub numbers: &'a [u64],
    /// What it replied to a charge, if it is in shadow: whether it would refuse, and its status
    /// then.
    pub(in crate::algorithm) in_shadow: Option<&'a [u64]>,
}

impl<'a> ScriptReply<'a> {
    /// What these members replied to a cost. `admitting` has one bit for each, set if it admits;
    /// `charged` is whether the cost was charged, which takes all of them.
    pub fn new(
        (members, numbers): (&'a [Member], &'a [u64]),
        (admitting, now): (u64, Timestamp),
        (cost, charged): (u32, bool),
    ) -> Self {
        let all_admit = admitting.count_ones() as usize == members.len();
        let replied = members.iter().map(|member| member.replied(charged).len());
        let (numbers, in_shadow) = match members.iter().any(|member| member.in_shadow) {
            true => numbers.split_at(numbers.len().min(replied.sum())),
            false => (numbers, [].as_slice()),
        };
        Self {
            now,
            cost: if all_admit && !charged { 0 } else { cost },
            all_admit,
            charged,
            admitting,
            members: members.iter(),
            numbers,
            in_shadow,
            only: None,
        }
    }

    /// What one member replied, to be read by the rule that it wraps.
    pub(in crate::algorithm) fn of_one(
        only: MemberReply<'a>,
        (all_admit, now): (bool, Timestamp),
    ) -> Self {
        Self {
            now,
            cost: only.cost,
            all_admit,
            charged: only.charged,
            admitting: only.admitted.into(),
            members: [].iter(),
            numbers: &[],
            in_shadow: &[],
            only: Some(only),
        }
    }

    /// Whether all members admit.
    pub fn is_admitted(&self) -> bool {
        self.all_admit
    }

    /// The instant of the decision.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What the next member replied.
    pub fn next_member(&mut self) -> Option<MemberReply<'a>> {
        if let Some(only) = self.only.take() {
            return Some(only);
        }
        let member = self.members.next()?;
        let names = member.replied(self.charged);
        let (numbers, others) = self.numbers.split_at_checked(names.len())?;
        let admitted = self.admitting & 1 == 1;
        self.admitting >>= 1;
        self.numbers = others;
        let in_shadow = match member.in_shadow && self.charged {
            true => {
                let names = member.replied_in_shadow();
                let (own, others) = self.in_shadow.split_at_checked(names.len())?;
                self.in_shadow = others;
                Some(own)
            }
            false => None,
        };
        // A member that admits what another one refuses was not charged, as by a cost of 0.
        let charged_or_refused = self.all_admit || !admitted;
        let cost = if charged_or_refused { self.cost } else { 0 };
        Some(MemberReply {
            cost: if member.per_request {
                cost.min(1)
            } else {
                cost
            },
            admitted,
            charged: self.charged,
            numbers,
            in_shadow,
        })
    }
}
