//! Traffic: the requests of callers, with their times and costs.

use fastrand::Rng;
use serde::Deserialize;

use crate::{
    recording::{self, Recording},
    simulate::Request,
    span,
};

/// The maximum: no page could draw more.
pub const MAX_REQUESTS: usize = 20_000;

/// The shape of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Each caller's requests are evenly spread.
    Even,
    /// Each caller sends all its requests at once.
    Bursts,
    /// Each caller sends all its requests just before an edge between two spans, and as many just
    /// after it, at every other edge, so that a whole span before is free.
    Edge,
    /// Requests come at random times, from callers by Zipf's law: the second caller sends half as
    /// many as the first, the third a third.
    Zipf,
    /// Even traffic, and in the middle third of the time one more caller, which sends twenty times
    /// as much.
    Flood,
    /// Recorded traffic.
    Recording,
}

/// Traffic as chosen in the page.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Traffic {
    /// Its shape.
    pub shape: Shape,
    /// The requests in each span of `every`: of each caller, or of all with [`Shape::Zipf`].
    #[serde(default = "one")]
    pub requests: u32,
    /// A span of time, such as `1s`.
    #[serde(default = "second")]
    pub every: String,
    /// For how long.
    #[serde(default = "second")]
    pub lasts: String,
    /// What each request costs.
    #[serde(default = "one")]
    pub cost: u32,
    /// How many callers there are.
    #[serde(default = "one")]
    pub callers: u32,
    /// Whether all callers share one bucket.
    #[serde(default)]
    pub shared: bool,
    /// How long a request runs, such as `300ms`, for limits on requests in flight and for holds.
    #[serde(default)]
    pub runs: String,
    /// What each request has spent when it ends, for holds; by default what it costs.
    #[serde(default)]
    pub spends: Option<u32>,
    /// The text of a [`recording`].
    #[serde(default)]
    pub recording: String,
}

fn one() -> u32 {
    1
}

fn second() -> String {
    "1s".to_owned()
}

impl Traffic {
    /// The requests, in ascending order of time.
    ///
    /// # Errors
    ///
    /// A number is wrong, or there would be more than [`MAX_REQUESTS`].
    pub fn requests(&self) -> Result<Recording, String> {
        let mut made = match self.shape {
            Shape::Recording => recording::read(&self.recording)?,
            _ => self.make()?,
        };
        check_number(made.requests.len() as u64)?;
        let runs_micros = match &*self.runs {
            "" => 0,
            runs => span::micros(runs)?,
        };
        for request in &mut made.requests {
            request.runs_micros = runs_micros;
            request.spends = self.spends.unwrap_or(request.spends);
            request.bucket = if self.shared { 0 } else { request.caller };
        }
        Ok(made)
    }

    fn make(&self) -> Result<Recording, String> {
        let (every, lasts) = (span::micros(&self.every)?, span::micros(&self.lasts)?);
        let (units, callers) = (u64::from(self.requests), u64::from(self.callers));
        let spans = lasts.div_ceil(every);
        // At least the number of requests, so that a mistake cannot take all the memory of the
        // page.
        let most = spans
            .saturating_mul(units)
            .saturating_mul(match self.shape {
                Shape::Zipf => 1,
                Shape::Flood => callers + 20,
                Shape::Edge => callers * 2,
                _ => callers,
            });
        check_number(most / 8)?;
        if callers == 0 || u64::from(self.callers) > MAX_REQUESTS as u64 {
            return Err(format!(
                "there must be 1 to {MAX_REQUESTS} callers, not {callers}"
            ));
        }
        let mut requests = Vec::new();
        let mut add = |at: u64, caller: u64| {
            if at < lasts {
                requests.push(Request {
                    caller: caller as u32,
                    cost: self.cost,
                    spends: self.cost,
                    ..Request::at(at)
                });
            }
        };
        match self.shape {
            Shape::Even | Shape::Flood => {
                for caller in 0..callers {
                    let offset = every / units.max(1) * caller / callers;
                    for index in 0..spans * units {
                        add(offset + place(index, every, units), caller);
                    }
                }
                if self.shape == Shape::Flood {
                    let (from, until) = (lasts / 3, lasts / 3 * 2);
                    let faster = units * 20;
                    for index in 0..spans * faster {
                        let at = from + place(index, every, faster);
                        if at < until {
                            add(at, callers);
                        }
                    }
                }
            }
            Shape::Bursts => {
                for burst in 0..spans {
                    for caller in 0..callers {
                        (0..units).for_each(|_| add(burst * every, caller));
                    }
                }
            }
            Shape::Edge => {
                for edge in (1..=spans).step_by(2) {
                    for at in [edge * every - every / 20, edge * every + every / 20] {
                        for caller in 0..callers {
                            (0..units).for_each(|_| add(at, caller));
                        }
                    }
                }
            }
            Shape::Zipf => {
                let mut random = Rng::with_seed(1);
                let shares: Vec<f64> = (1..=callers).map(|rank| 1.0 / rank as f64).collect();
                let all: f64 = shares.iter().sum();
                let asked = u128::from(units) * u128::from(lasts) / u128::from(every);
                for _ in 0..asked {
                    let mut left = random.f64() * all;
                    let whose = shares.iter().position(|share| {
                        left -= share;
                        left < 0.0
                    });
                    add(random.u64(0..lasts), whose.unwrap_or(0) as u64);
                }
            }
            Shape::Recording => {}
        }
        requests.sort_by_key(|request| (request.at, request.caller));
        let mut callers: Vec<_> = (0..callers)
            .map(|it| format!("caller {}", it + 1))
            .collect();
        if self.shape == Shape::Flood {
            callers.push("the flood".to_owned());
        }
        Ok(Recording { requests, callers })
    }
}

/// The instant of the request with this index, if each span has this many requests.
fn place(index: u64, every: u64, units: u64) -> u64 {
    let at = u128::from(index) * u128::from(every) / u128::from(units);
    u64::try_from(at).unwrap_or(u64::MAX)
}

fn check_number(requests: u64) -> Result<(), String> {
    if requests > MAX_REQUESTS as u64 {
        return Err(format!(
            "{requests} requests are more than {MAX_REQUESTS}, the maximum"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::SECOND;

    fn traffic(json: &str) -> Result<Recording, String> {
        serde_json::from_str::<Traffic>(json).unwrap().requests()
    }

    fn instants(json: &str) -> Vec<u64> {
        let requests = traffic(json).unwrap().requests;
        requests.iter().map(|request| request.at).collect()
    }

    #[test]
    fn shapes_have_the_requests_that_they_say() {
        assert_eq!(
            instants(r#"{"shape": "even", "requests": 4}"#),
            [0, 250_000, 500_000, 750_000]
        );
        assert_eq!(
            instants(r#"{"shape": "bursts", "requests": 2, "every": "500ms"}"#),
            [0, 0, 500_000, 500_000]
        );
        assert_eq!(
            instants(r#"{"shape": "edge", "requests": 1, "lasts": "4s"}"#),
            [950_000, 1_050_000, 2_950_000, 3_050_000]
        );
        let flood = traffic(r#"{"shape": "flood", "requests": 2, "lasts": "6s"}"#).unwrap();
        let of_the_flood = flood.requests.iter().filter(|request| request.caller == 1);
        let instants: Vec<_> = of_the_flood.map(|request| request.at).collect();
        assert_eq!(instants.len(), 80);
        assert!(
            instants
                .iter()
                .all(|at| (2 * SECOND..4 * SECOND).contains(at))
        );
    }

    #[test]
    fn callers_by_zipf_ask_less_the_later_they_come_and_the_same_each_time() {
        let json = r#"{"shape": "zipf", "requests": 1000, "lasts": "5s", "callers": 9}"#;
        let made = traffic(json).unwrap();
        let of = |caller| {
            made.requests
                .iter()
                .filter(|it| it.caller == caller)
                .count()
        };
        assert_eq!(made.requests.len(), 5_000);
        assert!(of(0) > of(1) + 500 && of(1) > of(3) && of(3) > of(8));
        assert_eq!(made.requests, traffic(json).unwrap().requests);
    }

    #[test]
    fn callers_share_a_bucket_only_if_they_are_to() {
        let made = |shared: bool| {
            let json = format!(r#"{{"shape": "bursts", "callers": 2, "shared": {shared}}}"#);
            let requests = traffic(&json).unwrap().requests;
            (requests[0].bucket, requests[1].bucket)
        };
        assert_eq!((made(false), made(true)), ((0, 1), (0, 0)));
    }

    #[test]
    fn more_requests_than_can_be_shown_are_refused_before_they_are_made() {
        for json in [
            r#"{"shape": "even", "requests": 4000000000, "lasts": "1h"}"#,
            r#"{"shape": "bursts", "callers": 4000000000, "requests": 0}"#,
            r#"{"shape": "edge", "requests": 20001, "lasts": "2s"}"#,
            r#"{"shape": "zipf", "every": "1us", "lasts": "1day"}"#,
        ] {
            assert!(traffic(json).is_err(), "{json}");
        }
    }
}
