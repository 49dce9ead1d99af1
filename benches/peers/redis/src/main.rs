//! One decision in Redis, by tollgate and by the libraries that people would pick instead: what it
//! costs the server.

mod count;
mod fleet;
mod libraries;
mod other_languages;
mod race;
mod subject;

use std::{cell::RefCell, time::Duration};

use fred::clients::Client;
use tokio::runtime::Runtime;
use tollgate::{
    Quota,
    algorithm::{FixedWindow, Gcra, SlidingBuckets, SlidingLog, SlidingWindow},
};
use tollgate_peers::{
    quick, table,
    turns::{Turns, multiple},
    versions::version_of,
};
use tollgate_redis_tests::Server;

use crate::{
    libraries::{BUCKET, Limit, WINDOW},
    other_languages::Installed,
    subject::{CALLERS, Decide},
};

const TEXT: &str = "One decision after the other, by a hundred callers in turn, on a server that the run starts. The \
    first time is that of the commands of a decision, by the server's own count, and tollgate's as a multiple of it: \
    groups of three turns. The CPU is that of the server's whole process, network and all, in one run of each. The time \
    of an answer is most of all the number of round trips. Bytes are those of all keys, for each caller.";

fn main() {
    table::section("One decision in Redis, beside other libraries", TEXT);
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = runtime.block_on(Server::start());
    let measurement = runtime.block_on(async {
        let before = count::reset(&server).await;
        count::cost(&server, before).await
    });
    let bench = Bench {
        measurement,
        client: runtime.block_on(server.client()),
        url: server.url(),
        server,
        runtime,
    };
    let installed = Installed::new();
    table::head(&[
        "library",
        "rule",
        "answer",
        "its µs",
        "tollgate's, as a multiple",
        "its server's CPU, µs",
        "tollgate's",
        "its round trips",
        "tollgate's",
        "its commands",
        "tollgate's",
        "its bytes",
        "tollgate's, as a multiple",
    ]);
    for admitted in [true, false] {
        bench.rows(admitted, &installed);
    }
    race::table(&bench.runtime, &bench.server, &bench.client);
    fleet::table(&bench.runtime, &bench.server, &installed);
    if installed.limits.is_none() {
        println!("\nPython's `limits` could not be installed here: it is left out.");
    }
    if installed.flexible.is_none() {
        println!("\nnpm's `rate-limiter-flexible` could not be installed here: it is left out.");
    }
}

struct Bench {
    runtime: Runtime,
    server: Server,
    client: Client,
    url: String,
    /// What it costs to look.
    measurement: count::Cost,
}

impl Bench {
    fn rows(&self, admitted: bool, installed: &Installed) {
        let (interval_s, burst) = if admitted { (1, 60_000) } else { (3_600, 2) };
        let limit = Limit {
            interval: Duration::from_secs(interval_s),
            burst,
        };
        let most = u32::from(burst);
        let (url, client) = (&self.url, &self.client);
        let gcra = || {
            let quota = Quota::one_every(limit.interval);
            libraries::tollgate(client, Gcra::new(quota).burst(burst.into()))
        };
        let rust = |name: &str| format!("{name} {}", version_of(name));

        let its = libraries::tower_rate_limit_fred(client, limit);
        self.row(
            [&rust("tower-rate-limit-fred"), "GCRA"],
            admitted,
            its,
            gcra(),
        );
        let its = self.runtime.block_on(libraries::throttle_kit(url, limit));
        self.row([&rust("throttle-kit"), "GCRA"], admitted, its, gcra());
        let its = self.runtime.block_on(libraries::skp_ratelimit(url, limit));
        self.row([&rust("skp-ratelimit"), "GCRA"], admitted, its, gcra());

        let quota = Quota::new(most.into(), WINDOW);
        match self.runtime.block_on(libraries::trypema(url, most)) {
            Some(its) => {
                let buckets = SlidingBuckets::new(quota, BUCKET);
                let ours = libraries::tollgate(client, buckets);
                self.row(
                    [&rust("trypema"), "window of 24 buckets"],
                    admitted,
                    its,
                    ours,
                );
            }
            None => table::row(&[&rust("trypema"), &"needs a newer server: left out"]),
        }

        if let Some(version) = &installed.limits {
            let name = format!("limits {version} (Python)");
            let limits = |strategy: &str| installed.limits(url, strategy, most);
            let ours = libraries::tollgate(client, FixedWindow::new(quota));
            self.row(
                [&name, "fixed window"],
                admitted,
                limits("FixedWindowRateLimiter"),
                ours,
            );
            let ours = libraries::tollgate(client, SlidingLog::new(quota));
            self.row(
                [&name, "log"],
                admitted,
                limits("MovingWindowRateLimiter"),
                ours,
            );
            let ours = libraries::tollgate(client, SlidingWindow::new(quota));
            let its = limits("SlidingWindowCounterRateLimiter");
            self.row([&name, "two windows, weighed"], admitted, its, ours);
        }
        if let Some(version) = &installed.flexible {
            let name = format!("rate-limiter-flexible {version} (npm)");
            let ours = FixedWindow::new(quota).from_first_request();
            let ours = libraries::tollgate(client, ours);
            self.row(
                [&name, "fixed window"],
                admitted,
                installed.flexible(url, most),
                ours,
            );
        }
    }

    fn row(&self, [library, rule]: [&str; 2], admitted: bool, its: Decide, ours: Decide) {
        let (its, ours) = (RefCell::new(its), RefCell::new(ours));
        let [its_bytes, our_bytes] =
            [&its, &ours].map(|decide| self.bytes(&mut decide.borrow_mut()));
        // Both have used up what they have, where all is to be refused.
        for decide in [&its, &ours] {
            self.cost(&mut decide.borrow_mut(), 3 * CALLERS, None);
        }
        let cost = |decide: &RefCell<Decide>, count: usize| {
            let cost = self.cost(&mut decide.borrow_mut(), count, Some(admitted));
            cost.of_one(count as f64)
        };
        let count = if quick() { 200 } else { 1_000 };
        let (its_cost, our_cost) = (cost(&its, count), cost(&ours, count));
        let [its, ours] = Turns::new(21, 3).take([
            Box::new(|| cost(&its, count / 2).micros),
            Box::new(|| cost(&ours, count / 2).micros),
        ]);
        table::row(&[
            &library,
            &rule,
            &if admitted { "admitted" } else { "refused" },
            &format!("{:.1}", its.median()),
            &ours.ratio_to(&its),
            &format!("{:.0}", its_cost.cpu_micros),
            &format!("{:.0}", our_cost.cpu_micros),
            &format!("{:.0}", its_cost.reads),
            &format!("{:.0}", our_cost.reads),
            &format!("{:.1}", its_cost.commands),
            &format!("{:.1}", our_cost.commands),
            &format!("{its_bytes:.0}"),
            &multiple(our_bytes / its_bytes),
        ]);
    }

    /// Bytes for each caller, after three requests of each.
    fn bytes(&self, decide: &mut Decide) -> f64 {
        self.runtime.block_on(async {
            let () = self.server.command("FLUSHALL", &[]).await;
            decide(3 * CALLERS).await;
            count::bytes(&self.server).await / CALLERS as f64
        })
    }

    fn cost(&self, decide: &mut Decide, decisions: usize, admitted: Option<bool>) -> count::Cost {
        self.runtime.block_on(async {
            let before = count::reset(&self.server).await;
            let passed = decide(decisions).await;
            if let Some(admitted) = admitted {
                assert_eq!(passed, if admitted { decisions } else { 0 });
            }
            let cost = count::cost(&self.server, before).await;
            cost.without(self.measurement)
        })
    }
}
