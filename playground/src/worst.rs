//! The worst span of a run: the one in which a limit let most through.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use crate::{
    bound::{Bound, Counts, Weight},
    simulate::{Decided, Request},
};

/// The span in which most was admitted in one bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worst {
    /// How much.
    pub most: u64,
    /// The first instant of an admission in it.
    pub from: u64,
    /// The last one.
    pub until: u64,
    /// Whose it is.
    pub bucket: u32,
    /// For each request, the most in any span that ends before or with it.
    pub so_far: Vec<u64>,
}

/// An admission.
struct Passed {
    index: usize,
    at: u64,
    /// When it no longer counts.
    until: u64,
    weight: u64,
}

/// The worst span of these decisions, counted as in the bound of this member of a tuple. A single
/// limit is member 0.
pub fn worst(requests: &[Request], decided: &[Decided], member: usize, bound: &Bound) -> Worst {
    let mut buckets: BTreeMap<u32, Vec<Passed>> = BTreeMap::new();
    for (index, (request, decision)) in requests.iter().zip(decided).enumerate() {
        if decision.is_admitted && request.cost > 0 {
            let passed = passed(index, request, (decision, member), bound);
            buckets.entry(request.bucket).or_default().push(passed);
        }
    }
    let mut worst = Worst {
        so_far: vec![0; requests.len()],
        ..Worst::default()
    };
    for (bucket, mut passed) in buckets {
        passed.sort_by_key(|one| one.at);
        worst.look_at(bucket, &passed);
    }
    let mut most = 0;
    for value in &mut worst.so_far {
        most = most.max(*value);
        *value = most;
    }
    worst
}

fn passed(
    index: usize,
    request: &Request,
    (decision, member): (&Decided, usize),
    bound: &Bound,
) -> Passed {
    // It leaves when the last member releases it.
    let in_all = decision.delay_micros + request.runs_micros;
    let at = match bound.counts {
        Counts::Releases => request.at + decision.of_the_member(member).delay_micros,
        Counts::Units if bound.weight == Weight::Spent => request.at + in_all,
        _ => request.at,
    };
    let lasts = match bound.counts {
        Counts::InFlight => in_all,
        _ => bound.span_micros,
    };
    let weight = match bound.weight {
        Weight::Cost => request.cost.into(),
        Weight::One => 1,
        // No bound counts units that are spent beyond a hold.
        Weight::Spent => request.spends.min(request.cost).into(),
    };
    Passed {
        index,
        at,
        until: at + lasts,
        weight,
    }
}

impl Worst {
    fn look_at(&mut self, bucket: u32, passed: &[Passed]) {
        // Sorted by the instant at which it no longer counts.
        let mut inside: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let (mut sum, mut is_worst) = (0, false);
        for (position, one) in passed.iter().enumerate() {
            while let Some(Reverse((until, left))) = inside.peek().copied()
                && until <= one.at
            {
                inside.pop();
                sum -= passed[left].weight;
            }
            if one.until > one.at {
                inside.push(Reverse((one.until, position)));
                sum += one.weight;
            }
            self.so_far[one.index] = sum;
            if sum > self.most {
                self.most = sum;
                (self.until, self.bucket) = (one.at, bucket);
                is_worst = true;
            }
        }
        let counts = |one: &&Passed| one.at <= self.until && self.until < one.until;
        if is_worst && let Some(first) = passed.iter().find(counts) {
            self.from = first.at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bound::bound_on, limit::Limit, simulate::Looks, span::SECOND, tuple::Tuple};

    fn of(json: &str, requests: &[Request]) -> (Worst, u64) {
        let limit = Limit::of(json);
        let run = limit.run(requests, &Looks::default());
        let bound = bound_on(&limit, requests);
        (
            worst(requests, &run.decided, 0, &bound),
            bound.most.unwrap(),
        )
    }

    fn double_burst() -> Vec<Request> {
        let early = std::iter::repeat_n(Request::at(950_000), 12);
        early
            .chain(std::iter::repeat_n(Request::at(1_050_000), 12))
            .collect()
    }

    #[test]
    fn a_fixed_window_lets_2n_through_at_its_edge_and_a_log_does_not() {
        let (worst, bound) = of(
            r#"{"algorithm": "fixed-window", "quota": "10/s"}"#,
            &double_burst(),
        );
        assert_eq!((worst.most, bound), (20, 20));
        assert_eq!((worst.from, worst.until), (950_000, 1_050_000));
        assert_eq!(
            (worst.so_far[9], worst.so_far[11], worst.so_far[12]),
            (10, 10, 11)
        );
        let (worst, bound) = of(
            r#"{"algorithm": "sliding-log", "quota": "10/s"}"#,
            &double_burst(),
        );
        assert_eq!((worst.most, bound), (10, 10));
    }

    #[test]
    fn a_span_is_half_open() {
        let log = r#"{"algorithm": "sliding-log", "quota": "1/s"}"#;
        let (worst, _) = of(log, &[0, SECOND, 2 * SECOND].map(Request::at));
        assert_eq!(worst.most, 1);
    }

    #[test]
    fn what_is_delayed_counts_when_it_is_released() {
        let queue = r#"{"algorithm": "leaky-bucket-queue", "quota": "10/s", "capacity": 30}"#;
        let (worst, bound) = of(queue, &double_burst());
        assert_eq!((worst.most, bound), (10, 10));
    }

    #[test]
    fn what_is_held_counts_as_much_as_it_spends_and_when_it_ends() {
        let mut requests = [0, 900_000].map(Request::at);
        for request in &mut requests {
            (request.cost, request.spends) = (5, 2);
        }
        requests[0].runs_micros = 800_000;
        requests[1].runs_micros = 1_000_000;
        let log = r#"{"algorithm": "sliding-log", "quota": "10/s", "settled": true}"#;
        assert_eq!(of(log, &requests).0.most, 2);
        requests[1].runs_micros = 800_000;
        let (worst, bound) = of(log, &requests);
        assert_eq!((worst.most, bound), (4, 10));
        assert_eq!((worst.from, worst.until), (800_000, 1_700_000));
    }

    #[test]
    fn what_leaves_late_counts_for_a_queue_in_its_own_turn_and_for_others_until_it_ends() {
        let of_the_first = |json: &str, requests: &[Request]| {
            let tuple = Tuple::read(serde_json::from_str(json).unwrap()).unwrap();
            let run = tuple.run(requests, &Looks::default());
            let bound = bound_on(&tuple.members()[0], requests);
            worst(requests, &run.decided, 0, &bound).most
        };
        let slower = r#"{"algorithm": "leaky-bucket-queue", "quota": "1/s", "capacity": 9}"#;
        let both = |json: &str| format!("[{json}, {slower}]");
        // Its turns are 0 s and 0.1 s; they leave at 0 s and 1 s.
        let queue = both(r#"{"algorithm": "leaky-bucket-queue", "quota": "10/s"}"#);
        assert_eq!(of_the_first(&queue, &[0, 0].map(Request::at)), 2);
        // They end when they leave, and are charged then.
        let log = both(r#"{"algorithm": "sliding-log", "quota": "10/s", "settled": true}"#);
        assert_eq!(of_the_first(&log, &[0, 0].map(Request::at)), 1);
        // The second leaves at 1 s.
        let mut requests = [0, 500_000, 900_000].map(Request::at);
        for request in &mut requests {
            request.runs_micros = 10;
        }
        let in_flight = both(r#"{"algorithm": "in-flight", "requests": 5}"#);
        assert_eq!(of_the_first(&in_flight, &requests), 2);
    }

    #[test]
    fn buckets_are_counted_apart_and_what_runs_counts_until_it_ends() {
        let mut requests = [0, 1, 2, 50].map(Request::at);
        for request in &mut requests {
            request.runs_micros = 10;
        }
        requests[1].bucket = 1;
        let (worst, bound) = of(r#"{"algorithm": "in-flight", "requests": 5}"#, &requests);
        assert_eq!((worst.most, worst.bucket, bound), (2, 0, 5));
        assert_eq!(worst.so_far, [1, 1, 2, 2]);
    }
}
