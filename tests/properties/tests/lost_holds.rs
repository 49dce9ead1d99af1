//! Holds that a failover has lost, and that are settled later beside those that it has kept: in all
//! no more is spent beyond the bound than was lost.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Quota, Timestamp,
    algorithm::{
        Additive, Ending, FixedWindow, KeyLimit, Limit, Settled, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
};
use tollgate_properties::for_all;

#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    Hold(u32),
    /// Settles one of the holds, chosen by the first number, with this share of it, in quarters.
    Settle(usize, u32),
}

fn steps(number: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..=6_u64).prop_map(Step::Wait),
        5 => (1..=4_u32).prop_map(Step::Hold),
        4 => (0..8_usize, 0..=4_u32).prop_map(|(which, quarters)| Step::Settle(which, quarters)),
    ];
    prop::collection::vec(step, number)
}

/// A hold, on whichever server.
struct Open<S> {
    admission: S,
    cost: u32,
}

/// A key on one server; nothing that is spent comes back while this lasts.
struct Server<'a, A: Additive> {
    rule: &'a Settled<A>,
    state: <Settled<A> as KeyLimit>::State,
    now: u64,
    open: Vec<Open<<Settled<A> as Limit>::Snapshot>>,
    spent: u64,
    /// What was admitted here.
    held: u64,
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

impl<A: Additive> Server<'_, A> {
    fn hold(&mut self, cost: u32) -> bool {
        let (admitted, admission) = self.rule.step(&mut self.state, cost, at(self.now));
        if admitted {
            self.held += u64::from(cost);
            self.open.push(Open { admission, cost });
        }
        admitted
    }

    fn settle(&mut self, which: usize, spent: impl Fn(u32) -> u32) {
        let Open { admission, cost } = self.open.remove(which);
        let (now, spent) = (at(self.now), spent(cost));
        let ending = Ending::Settled { held: cost, spent };
        self.rule.end(&mut self.state, &admission, ending, now);
        self.spent += u64::from(spent);
    }

    fn play(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Wait(micros) => self.now += micros,
                Step::Hold(cost) => drop(self.hold(cost)),
                Step::Settle(which, quarters) if !self.open.is_empty() => {
                    self.settle(which % self.open.len(), |cost| cost * quarters / 4);
                }
                Step::Settle(..) => {}
            }
        }
    }

    /// The server dies, and one takes over that knows this state alone. Requests that run go on.
    fn fails_over_to(self, replica: <Settled<A> as KeyLimit>::State) -> Self {
        Self {
            state: replica,
            held: 0,
            ..self
        }
    }
}

/// What is spent in all beyond the bound, and what was lost, after these steps: before the
/// replication stops, while nothing is replicated, and after the failover.
fn beyond_the_bound<A: Additive>(
    rule: &Settled<A>,
    bound: u64,
    [before, unseen, after]: [&[Step]; 3],
) -> (i64, i64) {
    let mut server = Server {
        rule,
        state: rule.fresh(at(1_000_000)),
        now: 1_000_000,
        open: Vec::new(),
        spent: 0,
        held: 0,
    };
    server.play(before);
    let replica = server.state.clone();
    server.held = 0;
    server.play(unseen);
    let lost = server.held;
    let mut server = server.fails_over_to(replica);
    server.play(after);
    // All that runs spends all that it has held, and others take what is left.
    while !server.open.is_empty() {
        server.settle(0, |cost| cost);
        while server.hold(1) {}
    }
    let signed = |units| i64::try_from(units).unwrap();
    (signed(server.spent) - signed(bound), signed(lost))
}

#[test]
fn what_is_settled_after_a_failover_passes_the_bound_by_no_more_than_was_lost() {
    let times = (3..=9_u64, 1..=12_u64);
    let values = (times, steps(0..8), steps(0..6), steps(0..16));
    for_all(values, |((units, held_at_most), before, unseen, after)| {
        let day = Quota::per_day(units);
        let time = Duration::from_micros(held_at_most);
        let history = [&*before, &unseen, &after];
        macro_rules! none_passes {
            ($($rule:expr),+) => {$({
                let rule = $rule.settled().held_at_most(time);
                let (beyond, lost) = beyond_the_bound(&rule, units, history);
                prop_assert!(beyond <= lost, "{rule:?}: {beyond} beyond, and {lost} lost");
            })+};
        }
        none_passes!(
            SlidingLog::new(day),
            FixedWindow::new(day),
            SlidingWindow::new(day),
            SlidingBuckets::new(day, Duration::from_secs(3_600)),
            TokenBucket::new(day)
        );
        Ok(())
    });
}
