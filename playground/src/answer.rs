//! Answers what the page asks: JSON in, JSON out.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate::Quota;

use crate::{
    bound::{Bound, Counts, bound},
    limit::{Fields, Limit},
    lines,
    recording::Recording,
    simulate::{Decided, Looks},
    span,
    traffic::Traffic,
    why::{retry_after_seconds, why},
    worst::{Worst, worst},
};

/// What the page asks.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
enum Question {
    /// What becomes of the requests under each limit.
    Run {
        limits: Vec<Fields>,
        traffic: Traffic,
    },
    /// What a bucket has left, evenly from one instant to another.
    Left {
        limits: Vec<Fields>,
        traffic: Traffic,
        bucket: u32,
        from: u64,
        until: u64,
        steps: u32,
    },
    /// Why one request was admitted or refused by each limit.
    Why {
        limits: Vec<Fields>,
        traffic: Traffic,
        index: usize,
    },
    /// What all algorithms do with this quota and burst.
    Compare {
        quota: String,
        burst: Option<u64>,
        traffic: Traffic,
    },
}

/// Answers a question; a mistake in it is `{"error": ..}`, and one in a limit stands in that
/// limit's place.
pub fn answer(question: &str) -> String {
    let answered = serde_json::from_str(question)
        .map_err(|error| error.to_string())
        .and_then(answered);
    let answer = answered.unwrap_or_else(|error| json!({ "error": error }));
    answer.to_string()
}

fn answered(question: Question) -> Result<Value, String> {
    match question {
        Question::Run { limits, traffic } => {
            let traffic = traffic.requests()?;
            let runs = limits
                .into_iter()
                .map(|fields| or_error(run(fields, &traffic)));
            let runs: Vec<_> = runs.collect();
            Ok(json!({ "requests": requests_of(&traffic), "limits": runs }))
        }
        Question::Left {
            limits,
            traffic,
            bucket,
            from,
            until,
            steps,
        } => {
            let traffic = traffic.requests()?;
            let from = from + origin(&traffic);
            let span = until.saturating_sub(from - origin(&traffic));
            let steps = u64::from(steps.clamp(1, 4_000));
            let at = (0..steps).map(|step| from + span * step / steps).collect();
            let looks = Looks { bucket, at };
            let left = limits.into_iter().map(|fields| {
                or_error(Limit::read(fields).map(|limit| {
                    let run = limit.run(&traffic.requests, &looks);
                    json!({ "left": run.left })
                }))
            });
            Ok(json!({ "limits": left.collect::<Vec<_>>() }))
        }
        Question::Why {
            limits,
            traffic,
            index,
        } => {
            let traffic = traffic.requests()?;
            let request = traffic.requests.get(index);
            let request = request.ok_or_else(|| format!("there is no request {index}"))?;
            let until = &traffic.requests[..=index];
            let told = limits.into_iter().map(|fields| {
                or_error(Limit::read(fields).map(|limit| {
                    let run = limit.run(until, &Looks::default());
                    json!({ "why": why(&limit, request, &run.decided[index]) })
                }))
            });
            Ok(json!({ "limits": told.collect::<Vec<_>>() }))
        }
        Question::Compare {
            quota,
            burst,
            traffic,
        } => {
            let traffic = traffic.requests()?;
            let rows = every_algorithm(&quota, burst)?.into_iter().map(|limit| {
                let seen = Seen::of(&limit, &traffic);
                json!({
                    "algorithm": limit.algorithm(),
                    "fields": limit.fields(),
                    "rust": lines::rust(&limit),
                    "numbers": seen.numbers(),
                    "worst": seen.worst.most,
                    "bound": bound_told(&seen.bound),
                })
            });
            Ok(json!({ "rows": rows.collect::<Vec<_>>() }))
        }
    }
}

fn or_error(answer: Result<Value, String>) -> Value {
    answer.unwrap_or_else(|error| json!({ "error": error }))
}

/// When the line of time begins: where the traffic does, if that is no simulation from 0 on.
fn origin(traffic: &Recording) -> u64 {
    let first = traffic.requests.first().map_or(0, |request| request.at);
    match first {
        0..3_600_000_000 => 0,
        _ => first / span::SECOND * span::SECOND,
    }
}

fn requests_of(traffic: &Recording) -> Value {
    let (requests, origin) = (&traffic.requests, origin(traffic));
    json!({
        "at": requests.iter().map(|it| it.at - origin).collect::<Vec<_>>(),
        "cost": requests.iter().map(|it| it.cost).collect::<Vec<_>>(),
        "caller": requests.iter().map(|it| it.caller).collect::<Vec<_>>(),
        "bucket": requests.iter().map(|it| it.bucket).collect::<Vec<_>>(),
        "callers": traffic.callers,
    })
}

/// A run, the bound, and the worst span that was found.
struct Seen {
    decided: Vec<Decided>,
    bound: Bound,
    worst: Worst,
}

/// What a run comes to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Numbers {
    admitted: usize,
    delayed: usize,
    refused: usize,
    longest_delay: Option<String>,
    longest_wait: Option<String>,
    retry_after: Option<u64>,
}

impl Seen {
    fn of(limit: &Limit, traffic: &Recording) -> Self {
        let requests = &traffic.requests;
        let decided = limit.run(requests, &Looks::default()).decided;
        let largest_cost = requests.iter().map(|it| it.cost).max().unwrap_or(1);
        let bound = bound(limit, largest_cost);
        let worst = worst(requests, &decided, &bound);
        Self {
            decided,
            bound,
            worst,
        }
    }

    fn numbers(&self) -> Numbers {
        let count = |counts: fn(&&Decided) -> bool| self.decided.iter().filter(counts).count();
        let delays = self.decided.iter().map(|it| it.delay_micros);
        let waits = self.decided.iter().filter_map(|it| it.retry_after_micros);
        let longest_wait = waits.max();
        Numbers {
            admitted: count(|it| it.is_admitted && it.delay_micros == 0),
            delayed: count(|it| it.is_admitted && it.delay_micros > 0),
            refused: count(|it| !it.is_admitted),
            longest_delay: delays.max().filter(|delay| *delay > 0).map(span::told),
            longest_wait: longest_wait.map(span::told),
            retry_after: longest_wait.map(retry_after_seconds),
        }
    }
}

fn bound_told(bound: &Bound) -> Value {
    json!({
        "most": bound.most,
        "micros": bound.span_micros,
        "span": bound.span(),
        "formula": bound.formula,
        "counts": match bound.counts {
            Counts::Units => "units",
            Counts::Releases => "units released",
            Counts::Requests => "requests",
            Counts::InFlight => "requests in flight",
        },
    })
}

fn run(fields: Fields, traffic: &Recording) -> Result<Value, String> {
    let limit = Limit::read(fields)?;
    let seen = Seen::of(&limit, traffic);
    let (decided, origin) = (&seen.decided, origin(traffic));
    let outcome = decided
        .iter()
        .map(|it| match (it.is_admitted, it.delay_micros) {
            (true, 0) => 0,
            (true, _) => 1,
            (false, _) => 2,
        });
    Ok(json!({
        "rust": lines::rust(&limit),
        "toml": lines::toml(&limit),
        "limit": decided.iter().map(|it| it.limit).max(),
        "outcome": outcome.collect::<Vec<_>>(),
        "delay": decided.iter().map(|it| it.delay_micros).collect::<Vec<_>>(),
        "remaining": decided.iter().map(|it| it.remaining).collect::<Vec<_>>(),
        "wait": decided.iter().map(|it| it.retry_after_micros).collect::<Vec<_>>(),
        "worst": {
            "most": seen.worst.most,
            "from": seen.worst.from.saturating_sub(origin),
            "until": seen.worst.until.saturating_sub(origin),
            "bucket": seen.worst.bucket,
            "soFar": seen.worst.so_far,
        },
        "bound": bound_told(&seen.bound),
        "numbers": seen.numbers(),
        "smallestBurst": smallest_burst(&limit, traffic),
    }))
}

/// The smallest burst or capacity with which none of this traffic is refused, as the simulation
/// finds it.
fn smallest_burst(limit: &Limit, traffic: &Recording) -> Option<u64> {
    let field = limit.burst_field()?;
    let refuses = |burst: u64| {
        let limit = limit.with(field, burst.into()).ok()?;
        let decided = limit.run(&traffic.requests, &Looks::default()).decided;
        Some(decided.iter().any(|it| !it.is_admitted))
    };
    let units = traffic.requests.iter().map(|it| u64::from(it.cost));
    let (mut too_small, mut enough) = (0, units.sum::<u64>().max(1));
    if refuses(enough)? {
        return None;
    }
    while enough - too_small > 1 {
        let middle = too_small + (enough - too_small) / 2;
        match refuses(middle)? {
            true => too_small = middle,
            false => enough = middle,
        }
    }
    Some(enough)
}

/// Each algorithm with this quota, and with this burst where it has one.
fn every_algorithm(quota: &str, burst: Option<u64>) -> Result<Vec<Limit>, String> {
    let read: Quota = quota
        .parse()
        .map_err(|_| format!("{quota:?} is not a quota"))?;
    let period = u64::try_from(read.period().as_micros()).map_err(|error| error.to_string())?;
    let burst = burst.unwrap_or(read.units());
    let parts = [10, 6, 4, 2, 1].into_iter();
    let precision = parts
        .map(|part| period / part)
        .find(|it| *it > 0 && period.is_multiple_of(*it));
    let precision = format!("{}us", precision.unwrap_or(period));
    let interval = format!("{}us", period.div_ceil(read.units().max(1)));
    let limits = [
        json!({ "algorithm": "token-bucket", "quota": quota, "burst": burst }),
        json!({ "algorithm": "sliding-log", "quota": quota }),
        json!({ "algorithm": "sliding-buckets", "quota": quota, "precision": precision, "strict": true }),
        json!({ "algorithm": "sliding-buckets", "quota": quota, "precision": precision }),
        json!({ "algorithm": "sliding-window", "quota": quota }),
        json!({ "algorithm": "fixed-window", "quota": quota }),
        json!({ "algorithm": "fixed-window", "quota": quota, "from-first-request": true }),
        json!({ "algorithm": "leaky-bucket-queue", "quota": quota, "capacity": burst }),
        json!({ "algorithm": "min-interval", "interval": interval }),
        json!({ "algorithm": "in-flight", "requests": burst }),
    ];
    let limits = limits.into_iter().map(|limit| match limit {
        Value::Object(fields) => Limit::read(fields),
        _ => Err("not a map".to_owned()),
    });
    limits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: Value) -> Value {
        serde_json::from_str(&answer(&question.to_string())).unwrap()
    }

    fn bucket() -> Value {
        json!({ "algorithm": "token-bucket", "quota": "40/min", "burst": 10 })
    }

    fn forty_a_minute() -> Value {
        json!({ "shape": "bursts", "requests": 40, "every": "1min", "lasts": "5min" })
    }

    #[test]
    fn a_run_tells_all_of_each_limit() {
        let limits = [
            bucket(),
            json!({ "algorithm": "sliding-log", "quota": "1/fortnight" }),
        ];
        let told = asked(json!({ "ask": "run", "limits": limits, "traffic": forty_a_minute() }));
        assert_eq!(told["requests"]["at"].as_array().unwrap().len(), 200);
        let run = &told["limits"][0];
        assert_eq!(
            run["rust"],
            "TokenBucket::new(Quota::per_minute(40)).burst(10)"
        );
        assert_eq!(run["numbers"]["admitted"], 50);
        assert_eq!(run["numbers"]["refused"], 150);
        assert_eq!(run["numbers"]["retryAfter"], 2);
        assert_eq!(run["numbers"]["longestWait"], "1.5 s");
        assert_eq!(run["bound"]["most"], 49);
        assert_eq!(run["worst"]["most"], 10);
        assert_eq!(run["outcome"][10], 2);
        assert!(
            told["limits"][1]["error"]
                .as_str()
                .unwrap()
                .contains("fortnight")
        );
    }

    #[test]
    fn a_client_who_sends_40_at_once_each_minute_needs_a_burst_of_40() {
        let ask = |quota| {
            let limit = json!({ "algorithm": "token-bucket", "quota": quota });
            let question = json!({ "ask": "run", "limits": [limit], "traffic": forty_a_minute() });
            asked(question)["limits"][0]["smallestBurst"].clone()
        };
        assert_eq!(ask("40/min"), 40);
        assert_eq!(ask("400/min"), 40);
        // What does not come back in a minute must be there from the beginning.
        assert_eq!(ask("30/min"), 80);
    }

    #[test]
    fn the_table_shows_which_algorithm_lets_2n_through_at_an_edge() {
        let traffic = json!({ "shape": "edge", "requests": 10, "every": "1s", "lasts": "4s" });
        let told = asked(json!({ "ask": "compare", "quota": "10/s", "traffic": traffic }));
        let rows = told["rows"].as_array().unwrap();
        let twice = rows.iter().filter(|row| row["worst"] == 20);
        let twice: Vec<_> = twice.map(|row| row["rust"].as_str().unwrap()).collect();
        assert_eq!(twice, ["FixedWindow::new(Quota::per_second(10))"]);
    }

    #[test]
    fn no_span_of_any_traffic_passes_the_bound_of_any_algorithm() {
        for shape in ["even", "bursts", "edge", "zipf", "flood"] {
            for (requests, cost) in [(3, 1), (10, 1), (13, 3), (40, 2)] {
                let traffic = json!({
                    "shape": shape, "requests": requests, "every": "1s", "lasts": "8s",
                    "cost": cost, "callers": 3, "shared": true, "runs": "350ms",
                });
                let question =
                    json!({ "ask": "compare", "quota": "10/s", "burst": 7, "traffic": traffic });
                for row in asked(question)["rows"].as_array().unwrap() {
                    let bound = row["bound"]["most"].as_u64().unwrap();
                    assert!(row["worst"].as_u64().unwrap() <= bound, "{shape}: {row}");
                }
            }
        }
    }

    #[test]
    fn a_request_that_was_chosen_is_told_why_and_what_is_left_is_told_of_its_bucket() {
        let question = |ask: &str, more: Value| {
            let mut question =
                json!({ "ask": ask, "limits": [bucket()], "traffic": forty_a_minute() });
            for (field, value) in more.as_object().unwrap() {
                question[field] = value.clone();
            }
            asked(question)
        };
        let told = question("why", json!({ "index": 10 }));
        let why = told["limits"][0]["why"].as_str().unwrap();
        assert!(
            why.starts_with("Refused: it costs 1, and 0 of 10 are left."),
            "{why}"
        );
        let error = question("why", json!({ "index": 200 }));
        assert_eq!(error["error"], "there is no request 200");
        let more = json!({ "bucket": 0, "from": 0, "until": 30_000_000, "steps": 2 });
        assert_eq!(question("left", more)["limits"][0]["left"], json!([0, 10]));
    }

    #[test]
    fn a_recording_of_another_year_begins_where_it_begins() {
        let recording = "1700000000.5\n1700000002";
        let traffic = json!({ "shape": "recording", "recording": recording });
        let told = asked(json!({ "ask": "run", "limits": [bucket()], "traffic": traffic }));
        assert_eq!(told["requests"]["at"], json!([500_000, 2_000_000]));
        assert_eq!(told["limits"][0]["worst"]["until"], 2_000_000);
    }

    #[test]
    fn what_is_no_question_is_an_error() {
        for question in [json!({}), json!({ "ask": "price" }), json!([])] {
            assert!(asked(question)["error"].is_string());
        }
    }
}
