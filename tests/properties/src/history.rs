//! Random histories: what happens, and how the time moves before it.

use proptest::prelude::*;

use crate::{call::Call, subject::Subject};

/// The longest instant that a clock can show.
pub const LAST: i128 = (1 << 53) - 1;

/// One step of a history: the time moves, then something is asked.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// How the time moves.
    pub turn: Turn,
    /// What is asked.
    pub op: Op,
}

/// How the time moves. Parts are in 255ths, and relative to the algorithm's own spans.
#[derive(Debug, Clone, Copy)]
pub enum Turn {
    /// Not at all.
    Still,
    /// So many microseconds forward.
    Ticks(u8),
    /// A part of two spans forward.
    Part(u8),
    /// So many spans forward.
    Spans(u8),
    /// To the end of the wait that was announced last.
    ToTheEndOfTheWait,
    /// To the last microsecond of the wait that was announced last.
    JustBeforeTheEndOfTheWait,
    /// So many microseconds back.
    BackTicks(u8),
    /// A part of the shortest span back.
    BackPart(u8),
    /// So many of the longest span back, and more than one of them.
    BackSpans(u8),
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    /// Decide about a cost.
    Check(Cost),
    /// Look.
    Peek,
    /// Charge, whether it fits or not.
    Debit(Cost),
    /// Give back.
    Refund(Cost),
    /// Forget the key.
    Reset,
}

/// A cost, relative to the limit.
#[derive(Debug, Clone, Copy)]
pub enum Cost {
    /// So many units.
    Units(u32),
    /// A part of the limit, in 255ths.
    Part(u8),
    /// The whole limit.
    Limit,
    /// One more than the limit.
    OverTheLimit,
    /// The largest cost there is.
    Huge,
}

impl Cost {
    /// In units, for this limit.
    pub fn of(self, limit: u64) -> u32 {
        let held = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
        match self {
            Self::Units(units) => units,
            Self::Part(part) => held(limit.saturating_mul(u64::from(part)) / 255),
            Self::Limit => held(limit),
            Self::OverTheLimit => held(limit.saturating_add(1)),
            Self::Huge => u32::MAX,
        }
    }
}

impl Op {
    /// What is asked of a key with this limit.
    pub fn call(self, limit: u64) -> Call<'static> {
        match self {
            Self::Check(cost) => Call::Check(cost.of(limit)),
            Self::Peek => Call::Look(1),
            Self::Debit(cost) => Call::Debit(cost.of(limit)),
            Self::Refund(cost) => Call::Refund(cost.of(limit)),
            Self::Reset => Call::Reset,
        }
    }
}

impl Turn {
    /// The time after this move, from `now`; `wait` is the one announced last.
    pub fn of(self, now: i128, wait: i128, subject: &Subject) -> i128 {
        self.within(now, wait, [subject.shortest_span(), subject.longest_span()])
    }

    /// The same, where these are the spans.
    pub fn within(self, now: i128, wait: i128, [shortest, longest]: [i128; 2]) -> i128 {
        let moved = match self {
            Self::Still => 0,
            Self::Ticks(ticks) => i128::from(ticks),
            Self::Part(part) => 2 * longest * i128::from(part) / 255,
            Self::Spans(spans) => longest * i128::from(spans),
            Self::ToTheEndOfTheWait => wait,
            Self::JustBeforeTheEndOfTheWait => (wait - 1).max(0),
            Self::BackTicks(ticks) => -i128::from(ticks),
            Self::BackPart(part) => -(shortest * i128::from(part) / 255),
            Self::BackSpans(spans) => -(longest * (2 + i128::from(spans)) + i128::from(spans)),
        };
        (now + moved).clamp(0, LAST)
    }
}

fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        1 => Just(Cost::Units(0)),
        6 => Just(Cost::Units(1)),
        3 => (2..5_u32).prop_map(Cost::Units),
        2 => any::<u8>().prop_map(Cost::Part),
        1 => Just(Cost::Limit),
        1 => Just(Cost::OverTheLimit),
        1 => Just(Cost::Huge),
    ]
}

pub(crate) fn forward() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => Just(Turn::Still),
        4 => (1..6_u8).prop_map(Turn::Ticks),
        3 => any::<u8>().prop_map(Turn::Part),
        1 => (1..4_u8).prop_map(Turn::Spans),
        2 => Just(Turn::ToTheEndOfTheWait),
        1 => Just(Turn::JustBeforeTheEndOfTheWait),
    ]
}

fn back() -> impl Strategy<Value = Turn> {
    prop_oneof![
        2 => (1..6_u8).prop_map(Turn::BackTicks),
        2 => any::<u8>().prop_map(Turn::BackPart),
        1 => (0..9_u8).prop_map(Turn::BackSpans),
    ]
}

/// A start and some steps.
#[derive(Debug, Clone)]
pub struct History {
    /// When it begins.
    pub start: i128,
    /// What happens.
    pub steps: Vec<Step>,
}

fn start() -> impl Strategy<Value = i128> {
    prop_oneof![
        1 => 0..200_i128,
        2 => 100_000..100_200_i128,
        2 => 1_700_000_000_000_000..1_700_000_000_000_200_i128,
    ]
}

fn history(
    turn: impl Strategy<Value = Turn> + 'static,
    op: impl Strategy<Value = Op> + 'static,
) -> impl Strategy<Value = History> {
    let step = (turn, op).prop_map(|(turn, op)| Step { turn, op }).boxed();
    let steps = prop_oneof![
        19 => prop::collection::vec(step.clone(), 1..20),
        // A store drops idle keys at every 32nd call.
        1 => prop::collection::vec(step, 40..80),
    ];
    (start(), steps).prop_map(|(start, steps)| History { start, steps })
}

/// Anything at all.
pub fn any_history() -> impl Strategy<Value = History> {
    history(prop_oneof![6 => forward(), 1 => back()], any_op())
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => cost().prop_map(Op::Check),
        1 => Just(Op::Peek),
        2 => cost().prop_map(Op::Refund),
        1 => Just(Op::Reset),
    ]
}

fn any_op_or_debit() -> impl Strategy<Value = Op> {
    prop_oneof![16 => any_op(), 3 => cost().prop_map(Op::Debit)]
}

/// Anything, and debits.
pub fn any_history_with_debits() -> impl Strategy<Value = History> {
    history(prop_oneof![6 => forward(), 1 => back()], any_op_or_debit())
}

/// Anything, and debits, but the time only moves forward.
pub fn forward_history_with_debits() -> impl Strategy<Value = History> {
    history(forward(), any_op_or_debit())
}

/// Checks and refunds, while the time only moves forward.
pub fn forward_history() -> impl Strategy<Value = History> {
    let op = prop_oneof![12 => cost().prop_map(Op::Check), 1 => cost().prop_map(Op::Refund)];
    history(forward(), op)
}

/// Checks only, forward and back by any step: of microseconds, of less than the shortest span, and
/// of more than the longest.
pub fn checks_back_and_forth() -> impl Strategy<Value = History> {
    let turn = prop_oneof![5 => forward(), 1 => back()];
    history(turn, cost().prop_map(Op::Check))
}
