//! One limit, or a tuple of several.

use serde::Deserialize;

use crate::{
    limit::{Fields, Limit},
    simulate::{Looks, Request, Run, simulate},
};

/// The fields of a limit, or of each member of a tuple, as a file has them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum TupleFields {
    /// Those of one limit.
    One(Fields),
    /// Those of each member.
    Several(Vec<Fields>),
}

/// Limits that all must admit a request, or none is charged; often only one.
#[derive(Debug, Clone)]
pub struct Tuple {
    members: Vec<Limit>,
}

impl Tuple {
    /// Reads one limit, or up to three.
    ///
    /// # Errors
    /// tollgate's error about a mistake; or there are too few or too many limits.
    pub fn read(fields: TupleFields) -> Result<Self, String> {
        let fields = match fields {
            TupleFields::One(fields) => vec![fields],
            TupleFields::Several(fields) => fields,
        };
        if !(1..=3).contains(&fields.len()) {
            return Err(format!(
                "{} limits: a tuple must have one to three",
                fields.len()
            ));
        }
        let several = fields.len() > 1;
        let read = fields.into_iter().enumerate().map(|(place, fields)| {
            Limit::read(fields).map_err(|error| match several {
                true => format!("{}. {error}", place + 1),
                false => error,
            })
        });
        let members = read.collect::<Result<_, _>>()?;
        Ok(Self { members })
    }

    /// Its members, in their order.
    pub fn members(&self) -> &[Limit] {
        &self.members
    }

    /// The outcomes of requests, which must be in ascending order of time.
    pub fn run(&self, requests: &[Request], looks: &Looks) -> Run {
        let any = |limit: &Limit| limit.rule().clone();
        // The tuples are tollgate's own.
        match &*self.members {
            [a, b] => simulate(&(any(a), any(b)), requests, looks),
            [a, b, c] => simulate(&(any(a), any(b), any(c)), requests, looks),
            members => members[0].run(requests, looks),
        }
    }
}

impl From<Limit> for Tuple {
    fn from(limit: Limit) -> Self {
        let members = vec![limit];
        Self { members }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{
        Quota,
        algorithm::{
            FixedWindow, Gcra, InFlight, KeyLimit, LeakyBucket, MinInterval, SlidingLog,
            TokenBucket,
        },
    };

    use super::*;
    use crate::traffic::Traffic;

    fn tuple(json: &str) -> Tuple {
        Tuple::read(serde_json::from_str(json).unwrap()).unwrap()
    }

    fn requests() -> Vec<Request> {
        let traffic = r#"{"shape": "zipf", "requests": 30, "lasts": "20s", "callers": 3, "cost": 2,
            "runs": "700ms", "spends": 1}"#;
        let traffic: Traffic = serde_json::from_str(traffic).unwrap();
        traffic.requests().unwrap().requests
    }

    /// What is chosen in the page decides as the same tuple in a program.
    #[track_caller]
    fn are_the_same<A: KeyLimit>(json: &str, rule: &A) {
        let requests = requests();
        let looks = Looks {
            bucket: 1,
            at: (0..400).map(|step| step * 50_000).collect(),
        };
        let (chosen, written) = (
            tuple(json).run(&requests, &looks),
            simulate(rule, &requests, &looks),
        );
        assert!(written.decided.iter().any(|it| it.is_admitted));
        assert!(written.decided.iter().any(|it| !it.is_admitted));
        assert_eq!(chosen.decided, written.decided);
        assert_eq!(chosen.left, written.left);
    }

    #[test]
    fn a_tuple_of_chosen_limits_decides_as_the_same_tuple_in_a_program() {
        are_the_same(
            r#"[{"algorithm": "token-bucket", "quota": "5/s", "burst": 8},
                {"algorithm": "fixed-window", "quota": "60/min"}]"#,
            &(
                TokenBucket::new(Quota::per_second(5)).burst(8),
                FixedWindow::new(Quota::per_minute(60)),
            ),
        );
        are_the_same(
            r#"[{"algorithm": "sliding-log", "quota": "40/min", "settled": true},
                {"algorithm": "in-flight", "requests": 4}]"#,
            &(
                SlidingLog::new(Quota::per_minute(40)).settled(),
                InFlight::new(4),
            ),
        );
        are_the_same(
            r#"[{"algorithm": "leaky-bucket-queue", "quota": "12/s", "capacity": 30},
                {"algorithm": "min-interval", "interval": "60ms"},
                {"algorithm": "gcra", "quota": "50/min", "per-request": true}]"#,
            &(
                LeakyBucket::new(Quota::per_second(12)).capacity(30).queue(),
                MinInterval::new(std::time::Duration::from_millis(60)),
                Gcra::new(Quota::per_minute(50)).per_request(),
            ),
        );
    }

    #[test]
    fn what_one_member_refuses_is_charged_to_none() {
        let both = tuple(
            r#"[{"algorithm": "fixed-window", "quota": "5/min"},
                {"algorithm": "sliding-log", "quota": "1/s"}]"#,
        );
        let requests = [0, 0, 0, 0].map(Request::at);
        let run = both.run(&requests, &Looks::default());
        let last = run.decided.last().unwrap();
        assert_eq!(
            (last.is_admitted, last.limit, last.remaining),
            (false, 1, 0)
        );
        let members = [0, 1].map(|member| {
            let it = last.of_the_member(member);
            (it.is_admitted, it.limit, it.remaining)
        });
        assert_eq!(members, [(true, 5, 4), (false, 1, 0)]);
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let error = |json: &str| Tuple::read(serde_json::from_str(json).unwrap()).unwrap_err();
        let limit = r#"{"algorithm": "gcra", "quota": "1/s"}"#;
        assert_eq!(
            error(&format!(r#"[{limit}, {{"algorithm": "dice"}}]"#)),
            "2. \"dice\" is not an algorithm"
        );
        assert_eq!(
            error(r#"{"algorithm": "dice"}"#),
            "\"dice\" is not an algorithm"
        );
        assert!(error("[]").starts_with("0 limits"));
        assert!(error(&format!("[{limit}, {limit}, {limit}, {limit}]")).starts_with("4 limits"));
    }
}
