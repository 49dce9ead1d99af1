//! Hot keys that are leased, beside the same keys that are asked about one by one: from four
//! stores, as of four processes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fred::clients::Client;
use tokio::time::sleep;
use tollgate::{Quota, RateLimiter, algorithm::TokenBucket, store::RedisStore};
use tollgate_redis_tests::Server;

use crate::{
    measure::store,
    throughput::{DEADLINE, spent},
};

const STORES: u64 = 4;
const KEYS: u64 = 64;
const LEASE_TIME: Duration = Duration::from_millis(250);
/// How many decisions of each store about each key within a lease time.
const OF_EACH: u64 = 40;
const FOR: Duration = Duration::from_secs(4);

/// What so many seconds have cost.
struct Measured {
    decisions: f64,
    admitted: f64,
    scripts: f64,
    cpu_micros: f64,
}

pub(crate) async fn compare(server: &Server, client: &Client) {
    println!(
        "\n{KEYS} hot keys from {STORES} stores, {OF_EACH} decisions of each about each key in a lease time"
    );
    let a_second = KEYS * STORES * OF_EACH * 1_000 / LEASE_TIME.as_millis() as u64;
    for percent in [50, 95, 200] {
        let of_key = a_second / KEYS * 100 / percent;
        let [mut direct, mut leased] = [0, 0].map(|_| Vec::new());
        for round in 0..2 {
            for (is_leased, of) in [(false, &mut direct), (true, &mut leased)] {
                let name = format!("leases:{percent}:{is_leased}:{round}");
                let stores = stores(STORES, client, &name, is_leased);
                let rule = TokenBucket::new(Quota::per_second(of_key)).burst(3 * of_key);
                of.push(paced(server, &stores, &rule, a_second).await);
            }
        }
        let [direct, leased] = [direct, leased].map(|mut all| all.pop().expect("a round"));
        let scripts = leased.scripts / leased.decisions;
        let units = (leased.admitted / leased.decisions) / (direct.admitted / direct.decisions);
        let most = if percent > 100 { 1.0 / 3.0 } else { 0.05 };
        let mark = if scripts <= most { ' ' } else { '!' };
        let of_units = if units >= 0.98 { ' ' } else { '!' };
        println!(
            "At {percent} % of the limit: {:.0} decisions a second, {:.0} direct; scripts for each {scripts:.3}{mark}(≤ {most:.2}), {:.2} direct; units of direct {units:.3}{of_units}(≥ 0.98); Redis's CPU {:.2} µs, {:.2} direct",
            leased.decisions / FOR.as_secs_f64(),
            direct.decisions / FOR.as_secs_f64(),
            direct.scripts / direct.decisions,
            leased.cpu_micros / leased.decisions,
            direct.cpu_micros / direct.decisions,
        );
    }
    at_most(server, client).await;
    seldom(server, client).await;
    cold(server, client).await;
}

fn stores(count: u64, client: &Client, name: &str, is_leased: bool) -> Vec<RedisStore> {
    let made = (0..count).map(|_| {
        let store = store(client, name).deadline(DEADLINE);
        let store = store
            .remember_refusals(DEADLINE)
            .ask_again_after(Duration::from_millis(10));
        match is_leased {
            true => store.build().leased(LEASE_TIME),
            false => store.build(),
        }
    });
    made.collect()
}

/// So many requests a second, each millisecond its part of them.
async fn paced(
    server: &Server,
    stores: &[RedisStore],
    rule: &TokenBucket,
    a_second: u64,
) -> Measured {
    let of_task = a_second / STORES / KEYS;
    run(server, (stores, KEYS), rule, move |begin, asked| {
        (begin.elapsed().as_secs_f64() * of_task as f64) as u64 <= asked
    })
    .await
}

/// One task for each key of each store; it sleeps while it is ahead.
async fn run(
    server: &Server,
    (stores, keys): (&[RedisStore], u64),
    rule: &TokenBucket,
    is_ahead: impl Fn(Instant, u64) -> bool + Clone + Send + Sync + 'static,
) -> Measured {
    let before = spent(server).await;
    let limiters = stores
        .iter()
        .map(|store| RateLimiter::new(rule.clone(), store.clone()));
    let limiters: Arc<Vec<_>> = Arc::new(limiters.collect());
    let begin = Instant::now();
    let tasks = (0..limiters.len() as u64 * keys).map(|task| {
        let (limiters, is_ahead) = (Arc::clone(&limiters), is_ahead.clone());
        tokio::spawn(async move {
            let (limiter, key) = (&limiters[(task / keys) as usize], task % keys);
            let (mut asked, mut admitted) = (0, 0);
            while begin.elapsed() < FOR {
                if is_ahead(begin, asked) {
                    sleep(Duration::from_millis(1)).await;
                    continue;
                }
                let decision = limiter.check(&key).await.expect("a decision");
                admitted += u64::from(decision.is_admitted());
                asked += 1;
                if asked % 32 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            (asked, admitted)
        })
    });
    let (mut decisions, mut admitted) = (0, 0);
    for task in tasks.collect::<Vec<_>>() {
        let (asked, its) = task.await.expect("a task that does not panic");
        (decisions, admitted) = (decisions + asked, admitted + its);
    }
    let after = spent(server).await;
    Measured {
        decisions: decisions as f64,
        admitted: admitted as f64,
        scripts: after.scripts - before.scripts,
        cpu_micros: after.cpu_micros - before.cpu_micros,
    }
}

/// As many decisions as there can be.
async fn at_most(server: &Server, client: &Client) {
    let rule = TokenBucket::new(Quota::per_second(1_000_000)).burst(4_000_000);
    let mut a_second = [0.0; 2];
    for (is_leased, most) in [false, true].into_iter().zip(&mut a_second) {
        let stores = stores(STORES, client, &format!("most:{is_leased}"), is_leased);
        let measured = run(server, (&stores, KEYS), &rule, |_, _| false).await;
        *most = measured.decisions / FOR.as_secs_f64();
    }
    let [direct, leased] = a_second;
    let ratio = leased / direct;
    let mark = if ratio >= 10.0 { ' ' } else { '!' };
    println!(
        "As fast as they go: {leased:.0} decisions a second, {direct:.0} direct; ratio {ratio:.1}{mark}(≥ 10)"
    );
}

/// One key from many processes, each of which asks too seldom to lease.
async fn seldom(server: &Server, client: &Client) {
    // What lies idle is settled before.
    sleep(4 * LEASE_TIME).await;
    let rule = TokenBucket::new(Quota::per_second(PROCESSES * 6));
    let stores = stores(PROCESSES, client, "seldom", true);
    let measured = run(server, (&stores, 1), &rule, |begin, asked| {
        (begin.elapsed().as_secs_f64() * 3.0) as u64 <= asked
    });
    let measured = measured.await;
    let scripts = measured.scripts / measured.decisions;
    let mark = if scripts <= 1.01 { ' ' } else { '!' };
    println!(
        "{PROCESSES} processes that ask three times a second: scripts for each decision {scripts:.3}{mark}(≤ 1.01)"
    );
}

const PROCESSES: u64 = 200;

/// Keys that are asked about once in a while.
async fn cold(server: &Server, client: &Client) {
    let rule = TokenBucket::new(Quota::per_second(100));
    let mut best = [[f64::INFINITY; 3]; 2];
    for round in 0..12 {
        for (is_leased, best) in [false, true].into_iter().zip(&mut best) {
            let name = format!("cold:{round}:{is_leased}");
            let store = match is_leased {
                true => stores(1, client, &name, true).remove(0),
                false => store(client, &name).deadline(DEADLINE).build(),
            };
            let limiter = RateLimiter::new(rule.clone(), store);
            let before = spent(server).await;
            let mut times = Vec::new();
            for key in 0..COLD {
                let begin = Instant::now();
                limiter.check(&key).await.expect("a decision");
                times.push(begin.elapsed());
            }
            let after = spent(server).await;
            times.sort_unstable();
            let p99 = times[times.len() * 99 / 100].as_secs_f64();
            let scripts = after.scripts - before.scripts;
            let cpu_micros = after.cpu_micros - before.cpu_micros;
            for (best, measured) in best.iter_mut().zip([scripts, cpu_micros, p99]) {
                *best = best.min(measured);
            }
        }
    }
    let [scripts, cpu, p99] = [0, 1, 2].map(|at| best[1][at] / best[0][at]);
    let mark = |ratio: f64| if ratio < 1.055 { ' ' } else { '!' };
    println!(
        "Cold keys, {COLD} of them: scripts {scripts:.3} of direct, Redis's CPU {cpu:.2}{}(≤ 1.05), p99 {p99:.2}{}(≤ 1.05)",
        mark(cpu),
        mark(p99),
    );
}

const COLD: u64 = 10_000;
