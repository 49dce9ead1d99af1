//! The printed bounds of the limits.

use crate::{limit::Limit, simulate::Request, span};

/// What is counted in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Units, when they are admitted.
    Units,
    /// Units, when they are released.
    Releases,
    /// Requests, when they are admitted.
    Requests,
    /// Requests that run at the same instant.
    InFlight,
}

/// How much of a request is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Its cost.
    Cost,
    /// 1, whatever it costs.
    One,
    /// What it has spent, when it ends.
    Spent,
}

/// The most that a limit lets through in any span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// How much, if the numbers are not so large that time is counted in coarser ticks.
    pub most: Option<u64>,
    /// The length of the span, (t − P, t]. It is 0 for what counts at an instant.
    pub span_micros: u64,
    /// What is counted.
    pub counts: Counts,
    /// How much of each request.
    pub weight: Weight,
    /// As the docs print it.
    pub formula: &'static str,
}

/// The bound of a limit on these requests.
///
/// It is not known where they spend more than they hold: that is charged, too, and stands in no
/// formula.
pub fn bound_on(limit: &Limit, requests: &[Request]) -> Bound {
    let largest_cost = requests.iter().map(|it| it.cost).max().unwrap_or(1);
    let bound = bound(limit, largest_cost);
    let spends_more = || requests.iter().any(|it| it.spends > it.cost);
    match bound.weight == Weight::Spent && spends_more() {
        true => Bound {
            most: None,
            ..bound
        },
        false => bound,
    }
}

/// The bound of a limit on requests of these costs, which spend no more than that.
pub fn bound(limit: &Limit, largest_cost: u32) -> Bound {
    let of_units = |largest_cost| printed(limit, largest_cost);
    if limit.is_set("per-request") {
        let bound = of_units(largest_cost.min(1));
        let counts = match bound.counts {
            Counts::Units => Counts::Requests,
            other => other,
        };
        let weight = Weight::One;
        return Bound {
            counts,
            weight,
            ..bound
        };
    }
    let bound = of_units(largest_cost);
    match limit.is_set("settled") {
        true => Bound {
            weight: Weight::Spent,
            ..bound
        },
        false => bound,
    }
}

/// The printed bound, if the limit counts time in microseconds.
fn printed(limit: &Limit, largest_cost: u32) -> Bound {
    let field = &|field: &str| limit.in_numbers(field);
    let it = limit.numbers(largest_cost, field);
    let printed = (limit.entry().shown.bound)(&it);
    let counts = match printed.counts {
        Some(tollgate_algorithms::Counts::Units) => Counts::Units,
        Some(tollgate_algorithms::Counts::Releases) => Counts::Releases,
        Some(tollgate_algorithms::Counts::Requests) => Counts::Requests,
        None => Counts::InFlight,
    };
    Bound {
        most: printed.most.and_then(|most| u64::try_from(most).ok()),
        span_micros: printed.span as u64,
        counts,
        weight: match counts {
            Counts::Units | Counts::Releases => Weight::Cost,
            Counts::Requests | Counts::InFlight => Weight::One,
        },
        formula: printed.formula,
    }
}

impl Bound {
    /// The span, as a person reads it.
    pub fn span(&self) -> String {
        match self.span_micros {
            0 => "instant".to_owned(),
            span => span::told(span),
        }
    }

    /// What the symbols of the formula mean, in one sentence.
    pub fn symbols(&self) -> String {
        let words = self.formula.split(|it: char| !it.is_alphabetic());
        let words: Vec<&str> = words.collect();
        let n = match self.counts {
            Counts::InFlight => "n is the requests that may run at once",
            _ => "n is the quota's units",
        };
        let period = match words.contains(&"d") {
            true => "P is the length of the span",
            false => "P is its period in microseconds",
        };
        let meanings = [
            (
                words.contains(&"burst"),
                "burst is what the full bucket holds",
            ),
            (words.contains(&"n"), n),
            (words.contains(&"c"), "c is the largest cost of a request"),
            (words.contains(&"P"), period),
            (words.contains(&"d"), "d is the interval"),
            (words.contains(&"max"), "max is the larger of two"),
            (self.formula.contains('⌊'), "⌊x⌋ is x rounded down"),
            (self.formula.contains('⌈'), "⌈x⌉ is x rounded up"),
        ];
        let meanings = meanings.into_iter().filter(|(is_used, _)| *is_used);
        let meanings: Vec<_> = meanings.map(|(_, meaning)| meaning).collect();
        match meanings.as_slice() {
            [] => String::new(),
            [only] => format!("Here {only}."),
            [first @ .., last] => format!("Here {}, and {last}.", first.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{algorithms::rows, field::Field};

    fn of(json: &str) -> Bound {
        let request = Request {
            cost: 3,
            spends: 2,
            ..Request::at(0)
        };
        bound_on(&Limit::of(json), &[request])
    }

    fn most(json: &str) -> Option<u64> {
        of(json).most
    }

    #[test]
    fn the_bounds_are_the_printed_ones() {
        for (json, expected) in [
            (
                r#"{"algorithm": "token-bucket", "quota": "10/s", "burst": 5}"#,
                14,
            ),
            (
                r#"{"algorithm": "gcra", "quota": "10/s", "wait-at-most": "2s"}"#,
                19,
            ),
            (
                r#"{"algorithm": "leaky-bucket-queue", "quota": "10/s"}"#,
                12,
            ),
            (r#"{"algorithm": "fixed-window", "quota": "10/s"}"#, 20),
            (
                r#"{"algorithm": "fixed-window", "quota": "10/s", "from-first-request": true}"#,
                19,
            ),
            (r#"{"algorithm": "sliding-log", "quota": "10/s"}"#, 10),
            (r#"{"algorithm": "sliding-window", "quota": "10/s"}"#, 19),
            (
                r#"{"algorithm": "sliding-buckets", "quota": "10/s", "precision": "100ms"}"#,
                20,
            ),
            (
                r#"{"algorithm": "sliding-buckets", "quota": "10/s", "precision": "100ms", "strict": true}"#,
                10,
            ),
            (r#"{"algorithm": "min-interval", "interval": "100ms"}"#, 1),
            (r#"{"algorithm": "in-flight", "requests": 7}"#, 7),
        ] {
            assert_eq!(most(json), Some(expected), "{json}");
        }
    }

    #[test]
    fn each_symbol_of_each_formula_is_explained() {
        let symbols = |json: &str| of(json).symbols();
        let waits = r#"{"algorithm": "gcra", "quota": "10/s", "wait-at-most": "2s"}"#;
        assert_eq!(
            symbols(waits),
            "Here burst is what the full bucket holds, n is the quota's units, \
             c is the largest cost of a request, and max is the larger of two."
        );
        let interval = r#"{"algorithm": "min-interval", "interval": "100ms"}"#;
        assert_eq!(
            symbols(interval),
            "Here P is the length of the span, d is the interval, and ⌈x⌉ is x rounded up."
        );
        let in_flight = r#"{"algorithm": "in-flight", "requests": 7}"#;
        assert_eq!(
            symbols(in_flight),
            "Here n is the requests that may run at once."
        );
        for (entry, row) in rows() {
            let bound = bound(&entry.limit(row, Field::default_value).unwrap(), 1);
            let symbols = bound.symbols();
            let used = bound.formula.split(|it: char| !it.is_alphabetic());
            for symbol in used.filter(|word| word.len() == 1) {
                assert!(
                    symbols.contains(&format!("{symbol} is ")),
                    "{symbol}: {symbols}"
                );
            }
        }
    }

    #[test]
    fn what_holds_has_the_same_bound_on_what_is_spent_and_what_counts_requests_on_those() {
        for (json, most, counts, weight) in [
            (
                r#"{"algorithm": "fixed-window", "quota": "10/s", "settled": true}"#,
                20,
                Counts::Units,
                Weight::Spent,
            ),
            (
                r#"{"algorithm": "leaky-bucket-queue", "quota": "10/s", "per-request": true}"#,
                10,
                Counts::Releases,
                Weight::One,
            ),
            (
                r#"{"algorithm": "sliding-log", "quota": "10/s", "per-request": true}"#,
                10,
                Counts::Requests,
                Weight::One,
            ),
        ] {
            let bound = of(json);
            assert_eq!(
                (bound.most, bound.counts, bound.weight),
                (Some(most), counts, weight)
            );
        }
    }

    #[test]
    fn no_bound_is_told_where_more_is_spent_than_was_held() {
        let limit = Limit::of(r#"{"algorithm": "sliding-log", "quota": "10/s", "settled": true}"#);
        let mut requests = [0, 1].map(Request::at);
        assert_eq!(bound_on(&limit, &requests).most, Some(10));
        requests[1].spends = 2;
        assert_eq!(bound_on(&limit, &requests).most, None);
    }

    #[test]
    fn no_bound_is_told_where_ticks_may_be_coarse() {
        let large = r#"{"algorithm": "token-bucket", "quota": "1000000007/day"}"#;
        assert_eq!(most(large), None);
    }
}
