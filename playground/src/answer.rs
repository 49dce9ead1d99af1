//! Answers the questions of the page: JSON in, JSON out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate::{Quota, algorithm::described::Kind};
use tollgate_algorithms::Row;

use crate::{
    algorithms::{own_fields, rows},
    bound::{Bound, Counts, Weight, bound_on},
    field::Field,
    limit::Limit,
    lines,
    recording::Recording,
    simulate::{Decided, Looks, Request},
    span,
    traffic::Traffic,
    tuple::{Tuple, TupleFields},
    why::{retry_after_seconds, why},
    worst::{Worst, worst},
};

/// A question of the page.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
enum Question {
    /// The outcomes of the requests under each limit.
    Run {
        limits: Vec<TupleFields>,
        traffic: Traffic,
    },
    /// What a bucket has left, at evenly spaced instants.
    Left {
        limits: Vec<TupleFields>,
        traffic: Traffic,
        bucket: u32,
        from: u64,
        until: u64,
        steps: u32,
    },
    /// Why one request was admitted or refused by each limit.
    Why {
        limits: Vec<TupleFields>,
        traffic: Traffic,
        index: usize,
    },
    /// The results of all algorithms with this quota and burst.
    Compare {
        quota: String,
        burst: Option<u64>,
        traffic: Traffic,
    },
}

/// Answers a question. A mistake in it becomes `{"error": ..}`; a mistake in a limit becomes an
/// error in the place of that limit.
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
            let (origin, span) = (origin(&traffic), until.saturating_sub(from));
            let steps = steps.clamp(1, 4_000);
            let instant = |step: u32| {
                let after = u128::from(span) * u128::from(step) / u128::from(steps);
                let after = u64::try_from(after).unwrap_or(u64::MAX);
                origin.saturating_add(from).saturating_add(after)
            };
            let at = (0..steps).map(instant).collect();
            let looks = Looks { bucket, at };
            let left = limits.into_iter().map(|fields| {
                or_error(Tuple::read(fields).map(|tuple| {
                    let run = tuple.run(&traffic.requests, &looks);
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
            let request =
                request.ok_or_else(|| format!("there is no request with index {index}"))?;
            let until = &traffic.requests[..=index];
            let whys = limits.into_iter().map(|fields| {
                or_error(Tuple::read(fields).map(|tuple| {
                    let run = tuple.run(until, &Looks::default());
                    json!({ "why": why(&tuple, request, &run.decided[index]) })
                }))
            });
            Ok(json!({ "limits": whys.collect::<Vec<_>>() }))
        }
        Question::Compare {
            quota,
            burst,
            traffic,
        } => {
            let traffic = traffic.requests()?;
            let rows = every_algorithm(&quota, burst)?.into_iter().map(|limit| {
                let (algorithm, fields) = (limit.entry().name, limit.fields().clone());
                let tuple = Tuple::from(limit);
                let seen = Seen::of(&tuple, &traffic);
                let (bound, worst) = seen.tightest();
                json!({
                    "algorithm": algorithm,
                    "fields": fields,
                    "rust": lines::tuple_rust(&tuple),
                    "numbers": seen.numbers(),
                    "worst": worst.most,
                    "bound": bound_shown(bound),
                })
            });
            Ok(json!({ "rows": rows.collect::<Vec<_>>() }))
        }
    }
}

fn or_error(answer: Result<Value, String>) -> Value {
    answer.unwrap_or_else(|error| json!({ "error": error }))
}

/// When the timeline begins: at 0, or at the first request if that is later than an hour.
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

/// A run, with the bound and the worst span of each member.
struct Seen {
    decided: Vec<Decided>,
    members: Vec<(Bound, Worst)>,
}

/// The totals of a run.
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
    fn of(tuple: &Tuple, traffic: &Recording) -> Self {
        let requests = &traffic.requests;
        let decided = tuple.run(requests, &Looks::default()).decided;
        let members = tuple.members().iter().enumerate().map(|(member, limit)| {
            let bound = bound_on(limit, requests);
            let worst = worst(requests, &decided, member, &bound);
            (bound, worst)
        });
        let members = members.collect();
        Self { decided, members }
    }

    /// The worst span of the member that comes closest to its bound.
    fn tightest(&self) -> &(Bound, Worst) {
        let share = |(bound, worst): &(Bound, Worst)| {
            let most = bound.most.map_or(u64::MAX, |most| most.max(1));
            worst.most as f64 / most as f64
        };
        let members = self.members.iter();
        let closest = members.reduce(|one, other| match share(other) > share(one) {
            true => other,
            false => one,
        });
        closest.expect("a limit has a bound")
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

fn bound_shown(bound: &Bound) -> Value {
    json!({
        "most": bound.most,
        "micros": bound.span_micros,
        "span": bound.span(),
        "formula": bound.formula,
        "symbols": bound.symbols(),
        "counts": match bound.counts {
            Counts::Units if bound.weight == Weight::Spent => "units spent",
            Counts::Units => "units",
            Counts::Releases if bound.weight == Weight::One => "requests released",
            Counts::Releases => "units released",
            Counts::Requests => "requests",
            Counts::InFlight => "requests in flight",
        },
    })
}

fn run(fields: TupleFields, traffic: &Recording) -> Result<Value, String> {
    let tuple = Tuple::read(fields)?;
    let seen = Seen::of(&tuple, traffic);
    let (bound, worst) = seen.tightest();
    let (decided, origin) = (&seen.decided, origin(traffic));
    let outcome = decided
        .iter()
        .map(|it| match (it.is_admitted, it.delay_micros) {
            (true, 0) => 0,
            (true, _) => 1,
            (false, _) => 2,
        });
    let members = tuple.members().iter().zip(&seen.members);
    let members = members.map(|(limit, (bound, worst))| {
        json!({ "called": limit.called(), "worst": worst.most, "bound": bound_shown(bound) })
    });
    Ok(json!({
        "rust": lines::tuple_rust(&tuple),
        "toml": lines::tuple_toml(&tuple),
        "limit": decided.iter().map(|it| it.limit).max(),
        "outcome": outcome.collect::<Vec<_>>(),
        "delay": decided.iter().map(|it| it.delay_micros).collect::<Vec<_>>(),
        "remaining": decided.iter().map(|it| it.remaining).collect::<Vec<_>>(),
        "wait": decided.iter().map(|it| it.retry_after_micros).collect::<Vec<_>>(),
        "worst": {
            "most": worst.most,
            "from": worst.from.saturating_sub(origin),
            "until": worst.until.saturating_sub(origin),
            "bucket": worst.bucket,
            "soFar": worst.so_far,
        },
        "bound": bound_shown(bound),
        "members": members.collect::<Vec<_>>(),
        "numbers": seen.numbers(),
        "smallestBurst": match tuple.members() {
            [limit] => smallest_burst(limit, traffic),
            _ => None,
        },
    }))
}

/// The smallest burst or capacity with which the simulation refuses none of this traffic; none,
/// if it comes faster than the quota: then no burst is enough for long.
fn smallest_burst(limit: &Limit, traffic: &Recording) -> Option<u64> {
    let field = limit.burst_field()?;
    if comes_faster_than(limit.quota()?, &traffic.requests) {
        return None;
    }
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

/// Whether any bucket is asked for more until its last requests than comes back meanwhile.
fn comes_faster_than(quota: Quota, requests: &[Request]) -> bool {
    let mut buckets = BTreeMap::<_, Vec<&Request>>::new();
    for request in requests {
        buckets.entry(request.bucket).or_default().push(request);
    }
    buckets.values().any(|all| {
        let (first, last) = (all[0].at, all[all.len() - 1].at);
        let before = all.iter().filter(|it| it.at < last);
        let asked: u128 = before.map(|it| u128::from(it.cost)).sum();
        let comes_back = u128::from(quota.units()) * u128::from(last - first);
        asked * quota.period().as_micros() > comes_back
    })
}

/// Each algorithm with this quota, and with this burst if it has one.
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
    let value = |field: &Field| match (field.kind, field.name) {
        (Kind::Quota, _) => Some(json!(quota)),
        (Kind::AtOnce, _) => Some(json!(burst)),
        (Kind::Interval, _) => Some(json!(interval)),
        (_, "precision") => Some(json!(precision)),
        _ => field.default_value(),
    };
    // A number of its own is for the picture, where all have the same ones.
    let has_no_number = |row: &Row| own_fields(row).values().all(Value::is_boolean);
    let rows = rows().filter(|(_, row)| has_no_number(row));
    rows.map(|(entry, row)| entry.limit(row, value)).collect()
}

#[cfg(test)]
mod tests;
