//! Why a request was admitted, delayed or refused, in words.

use crate::{
    limit::Limit,
    simulate::{Decided, Request},
    span,
    tuple::Tuple,
};

/// What a caller reads in `Retry-After`: seconds, rounded up, at least one.
pub fn retry_after_seconds(micros: u64) -> u64 {
    micros.div_ceil(span::SECOND).max(1)
}

/// What was decided about a request, and why.
pub fn why(tuple: &Tuple, request: &Request, decided: &Decided) -> String {
    match tuple.members() {
        [limit] => {
            let begin = match (decided.is_admitted, decided.delay_micros) {
                (true, 0) => "Admitted:".to_owned(),
                (true, delay) => format!(
                    "Delayed by {}: it is admitted, and leaves when its turn has come.",
                    span::told(delay)
                ),
                (false, _) => "Refused:".to_owned(),
            };
            let end = wait(tuple, decided);
            let says = match decided.delay_micros {
                0 => says(limit, request, decided),
                _ => left(decided),
            };
            format!("{begin} {says}{end}")
        }
        members => {
            let begin = match (decided.is_admitted, decided.delay_micros) {
                (true, 0) => "Admitted by all.".to_owned(),
                (true, delay) => format!(
                    "Delayed by {}: it is admitted by all, and leaves when the last one lets it.",
                    span::told(delay)
                ),
                (false, _) => "Refused, and charged to none.".to_owned(),
            };
            let each = members.iter().enumerate().map(|(member, limit)| {
                let own = decided.of_the_member(member);
                let called = limit.called();
                match (decided.is_admitted, own.is_admitted) {
                    (false, true) => format!(
                        "The {called} would admit it: {} of {} are left.",
                        own.remaining, own.limit
                    ),
                    (false, false) => {
                        format!("The {called} refuses: {}", says(limit, request, own))
                    }
                    (true, _) => format!("The {called}: {}", says(limit, request, own)),
                }
            });
            let each: Vec<_> = each.collect();
            format!("{begin} {}{}", each.join(" "), wait(tuple, decided))
        }
    }
}

/// What a limit says of a request, whichever others there are.
fn says(limit: &Limit, request: &Request, decided: &Decided) -> String {
    let costs = match limit.is_set("per-request") {
        true => "it is one request".to_owned(),
        false => format!("it costs {}", request.cost),
    };
    if !decided.is_admitted {
        let (remaining, most) = (decided.remaining, decided.limit);
        let reason = refusal(limit, decided);
        return format!("{costs}, and {remaining} of {most} are left. {reason}");
    }
    match limit.is_set("settled") {
        true => format!(
            "it holds {} until it ends {} later, and is charged {} then. {}",
            request.cost,
            span::told(request.runs_micros),
            request.spends,
            left(decided)
        ),
        false => format!("{costs}. {}", left(decided)),
    }
}

fn left(decided: &Decided) -> String {
    format!(
        "{} of {} are left after it.",
        decided.remaining, decided.limit
    )
}

/// How long a refused caller waits; nothing of one who is admitted.
fn wait(tuple: &Tuple, decided: &Decided) -> String {
    if decided.is_admitted {
        return String::new();
    }
    let Some(micros) = decided.retry_after_micros else {
        return match decided.never_fits {
            true => " It never fits, so there is no Retry-After.".to_owned(),
            false => " Nobody knows when one ends, so there is no Retry-After.".to_owned(),
        };
    };
    let holds = |limit: &Limit| limit.is_set("settled");
    let spent = match tuple.members().iter().any(holds) {
        true => " and all that is held is spent",
        false => "",
    };
    format!(
        " The same request is admitted {} later, if nobody else comes{spent}: Retry-After: {}.",
        span::told(micros),
        retry_after_seconds(micros)
    )
}

fn refusal(limit: &Limit, decided: &Decided) -> String {
    if decided.never_fits {
        return format!("More than {} at once is never let through.", decided.limit);
    }
    match decided.limit {
        0 => "Nothing is let through.".to_owned(),
        _ => {
            let numbers = &|field: &str| limit.in_numbers(field);
            let mut reason = (limit.entry().shown.refusal)(&limit.numbers(1, numbers)).to_owned();
            for (field, value) in limit.fields() {
                let value = value.as_str().unwrap_or_default();
                reason = reason.replace(&format!("{{{field}}}"), value);
            }
            let period = limit.quota().map_or(0, |quota| quota.period().as_micros());
            reason.replace("{period}", &span::told(period as u64))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Looks;

    /// Of the last of these requests.
    fn why_of(json: &str, requests: &[Request]) -> String {
        let tuple = Tuple::read(serde_json::from_str(json).unwrap()).unwrap();
        let run = tuple.run(requests, &Looks::default());
        let (request, decided) = (requests.last().unwrap(), run.decided.last().unwrap());
        why(&tuple, request, decided)
    }

    #[test]
    fn each_refusal_says_how_long_to_wait_and_each_admission_what_is_left() {
        let bucket = r#"{"algorithm": "token-bucket", "quota": "1/2s", "burst": 2}"#;
        assert_eq!(
            why_of(bucket, &[0].map(Request::at)),
            "Admitted: it costs 1. 1 of 2 are left after it."
        );
        assert_eq!(
            why_of(bucket, &[0, 0, 500_000].map(Request::at)),
            "Refused: it costs 1, and 0 of 2 are left. What is missing comes back at 1/2s, evenly. \
             The same request is admitted 1.5 s later, if nobody else comes: Retry-After: 2."
        );
        let dear = Request {
            cost: 3,
            ..Request::at(0)
        };
        assert!(why_of(bucket, &[dear]).ends_with("It never fits, so there is no Retry-After."));
    }

    #[test]
    fn a_delay_says_how_long_it_is() {
        let queue = r#"{"algorithm": "leaky-bucket-queue", "quota": "2/s"}"#;
        assert_eq!(
            why_of(queue, &[1, 1].map(|it| Request::at(it * span::SECOND))),
            "Delayed by 500 ms: it is admitted, and leaves when its turn has come. 0 of 2 are left \
             after it."
        );
    }

    #[test]
    fn what_is_held_says_what_it_is_charged_and_what_it_waits_for() {
        let held = r#"{"algorithm": "token-bucket", "quota": "10/s", "settled": true}"#;
        let mut requests = [0, 0].map(Request::at);
        for request in &mut requests {
            (request.cost, request.spends, request.runs_micros) = (8, 2, span::SECOND);
        }
        assert_eq!(
            why_of(held, &requests[..1]),
            "Admitted: it holds 8 until it ends 1 s later, and is charged 2 then. 2 of 10 are left \
             after it."
        );
        let refused = why_of(held, &requests);
        let until = "admitted 600 ms later, if nobody else comes and all that is held is spent:";
        assert!(refused.contains(until), "{refused}");
    }

    #[test]
    fn what_counts_requests_says_so_whatever_they_cost() {
        let log = r#"{"algorithm": "sliding-log", "quota": "1/s", "per-request": true}"#;
        let mut requests = [0, 0].map(Request::at);
        for request in &mut requests {
            request.cost = 300;
        }
        let refused = why_of(log, &requests);
        let begins = "Refused: it is one request, and 0 of 1 are left.";
        assert!(refused.starts_with(begins), "{refused}");
    }

    #[test]
    fn what_is_in_flight_is_refused_without_a_wait() {
        let mut requests = [0, 1].map(Request::at);
        requests[0].runs_micros = 9;
        let why = why_of(r#"{"algorithm": "in-flight", "requests": 1}"#, &requests);
        assert!(
            why.ends_with("Nobody knows when one ends, so there is no Retry-After."),
            "{why}"
        );
    }
    #[test]
    fn a_tuple_says_who_refuses_and_what_the_others_have_left() {
        let both = r#"[{"algorithm": "token-bucket", "quota": "2/s"},
            {"algorithm": "fixed-window", "quota": "3/min"}]"#;
        assert_eq!(
            why_of(both, &[0].map(Request::at)),
            "Admitted by all. The token-bucket 2/s: it costs 1. 1 of 2 are left after it. \
             The fixed-window 3/min: it costs 1. 2 of 3 are left after it."
        );
        assert_eq!(
            why_of(both, &[0, 0, 0].map(Request::at)),
            "Refused, and charged to none. The token-bucket 2/s refuses: it costs 1, and 0 of 2 \
             are left. What is missing comes back at 2/s, evenly. The fixed-window 3/min would \
             admit it: 1 of 3 are left. The same request is admitted 500 ms later, if nobody else \
             comes: Retry-After: 1."
        );
        let queue = r#"[{"algorithm": "leaky-bucket-queue", "quota": "2/s"},
            {"algorithm": "in-flight", "requests": 5}]"#;
        let delayed = why_of(queue, &[0, 0].map(Request::at));
        assert!(
            delayed.starts_with(
                "Delayed by 500 ms: it is admitted by all, and leaves when the last one lets it."
            ),
            "{delayed}"
        );
    }
}
