//! Why a request was admitted, delayed or refused, in words.

use crate::{
    limit::Limit,
    simulate::{Decided, Request},
    span,
};

/// What a caller reads in `Retry-After`: seconds, rounded up, at least one.
pub fn retry_after_seconds(micros: u64) -> u64 {
    micros.div_ceil(span::SECOND).max(1)
}

/// What was decided about a request, and why.
pub fn why(limit: &Limit, request: &Request, told: &Decided) -> String {
    let Decided {
        limit: most,
        remaining,
        ..
    } = *told;
    let is_held = limit.is_set("settled");
    let costs = match limit.is_set("per-request") {
        true => "it is one request".to_owned(),
        false => format!("it costs {}", request.cost),
    };
    if !told.is_admitted {
        let reason = refusal(limit, told);
        let wait = match told.retry_after_micros {
            Some(micros) => {
                let spent = match is_held {
                    true => " and all that is held is spent",
                    false => "",
                };
                format!(
                    "The same request is admitted {} later, if nobody else comes{spent}: \
                     Retry-After: {}.",
                    span::told(micros),
                    retry_after_seconds(micros)
                )
            }
            None if told.never_fits => "It never fits, so there is no Retry-After.".to_owned(),
            None => "Nobody knows when one ends, so there is no Retry-After.".to_owned(),
        };
        return format!("Refused: {costs}, and {remaining} of {most} are left. {reason} {wait}");
    }
    let left = format!("{remaining} of {most} are left after it.");
    match told.delay_micros {
        0 if is_held => format!(
            "Admitted: it holds {} until it ends {} later, and is charged {} then. {left}",
            request.cost,
            span::told(request.runs_micros),
            request.spends
        ),
        0 => format!("Admitted: {costs}. {left}"),
        delay => format!(
            "Delayed by {}: it is admitted, and leaves when its turn has come. {left}",
            span::told(delay)
        ),
    }
}

fn refusal(limit: &Limit, told: &Decided) -> String {
    if told.never_fits {
        return format!("More than {} at once is never let through.", told.limit);
    }
    let quota = limit.text("quota").unwrap_or_default();
    match limit.algorithm() {
        "token-bucket" | "gcra" | "leaky-bucket" | "leaky-bucket-queue" if told.limit == 0 => {
            "Nothing is let through.".to_owned()
        }
        "leaky-bucket-queue" => format!("The queue is full; it moves on at {quota}."),
        _ if limit.text("wait-at-most").is_some() => {
            let wait = limit.text("wait-at-most").unwrap_or_default();
            format!("It would have to wait for longer than {wait}, as it leaves at {quota}.")
        }
        "token-bucket" | "gcra" | "leaky-bucket" => {
            format!("What is missing comes back at {quota}, evenly.")
        }
        "fixed-window" => {
            "The window has taken all of its quota; the next one is empty.".to_owned()
        }
        "sliding-log" => {
            let quota = limit
                .quota()
                .map_or(0, |quota| quota.period().as_micros() as u64);
            let period = span::told(quota);
            format!(
                "What was admitted in the last {period} leaves no room until the oldest is as old."
            )
        }
        "sliding-window" => {
            "This window's count and the part of the previous one that still counts leave no room."
                .to_owned()
        }
        "sliding-buckets" => {
            "The sub-counters of the last period leave no room until the oldest is dropped."
                .to_owned()
        }
        "min-interval" => format!(
            "The last one was admitted less than {} ago.",
            limit.text("interval").unwrap_or_default()
        ),
        _ => "All places are taken by requests that still run.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Looks;

    /// Of the last of these requests.
    fn told(json: &str, requests: &[Request]) -> String {
        let limit = Limit::of(json);
        let run = limit.run(requests, &Looks::default());
        let (request, told) = (requests.last().unwrap(), run.decided.last().unwrap());
        why(&limit, request, told)
    }

    #[test]
    fn each_refusal_says_how_long_to_wait_and_each_admission_what_is_left() {
        let bucket = r#"{"algorithm": "token-bucket", "quota": "1/2s", "burst": 2}"#;
        assert_eq!(
            told(bucket, &[0].map(Request::at)),
            "Admitted: it costs 1. 1 of 2 are left after it."
        );
        assert_eq!(
            told(bucket, &[0, 0, 500_000].map(Request::at)),
            "Refused: it costs 1, and 0 of 2 are left. What is missing comes back at 1/2s, evenly. \
             The same request is admitted 1.5 s later, if nobody else comes: Retry-After: 2."
        );
        let dear = Request {
            cost: 3,
            ..Request::at(0)
        };
        assert!(told(bucket, &[dear]).ends_with("It never fits, so there is no Retry-After."));
    }

    #[test]
    fn a_delay_says_how_long_it_is() {
        let queue = r#"{"algorithm": "leaky-bucket-queue", "quota": "2/s"}"#;
        assert_eq!(
            told(queue, &[1, 1].map(|it| Request::at(it * span::SECOND))),
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
            told(held, &requests[..1]),
            "Admitted: it holds 8 until it ends 1 s later, and is charged 2 then. 2 of 10 are left \
             after it."
        );
        let refused = told(held, &requests);
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
        let refused = told(log, &requests);
        let begins = "Refused: it is one request, and 0 of 1 are left.";
        assert!(refused.starts_with(begins), "{refused}");
    }

    #[test]
    fn what_is_in_flight_is_refused_without_a_wait() {
        let mut requests = [0, 1].map(Request::at);
        requests[0].runs_micros = 9;
        let told = told(r#"{"algorithm": "in-flight", "requests": 1}"#, &requests);
        assert!(
            told.ends_with("Nobody knows when one ends, so there is no Retry-After."),
            "{told}"
        );
    }
}
