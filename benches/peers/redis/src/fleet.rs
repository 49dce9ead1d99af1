//! One hot key from four processes: how many are let through, and what it costs the server.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Runtime,
    task::LocalSet,
    time::{sleep, sleep_until},
};
use tollgate::{Quota, algorithm::SlidingBuckets, algorithm::SlidingWindow};
use tollgate_peers::{quick, table, versions::version_of};
use tollgate_redis_tests::Server;

use crate::{
    count,
    libraries::{self, BUCKET, WINDOW},
    other_languages::Installed,
    subject::Decide,
};

const TEXT: &str = "One key, asked about twice as often as fits: 20 000 units, of which none comes back meanwhile, and \
    40 000 requests in five seconds, from four stores with connections of their own, as of four processes. How many were \
    admitted, how many were refused while fewer than fit had been admitted, and for each request the commands of the \
    server and the CPU of its process. trypema's documentation says that it may let through too much for a while.";

const STORES: usize = 4;
const TASKS: usize = 16;
const LIMIT: u32 = 20_000;
/// How often a task asks.
const INTERVAL: Duration = Duration::from_millis(8);
const FOR: Duration = Duration::from_secs(5);

/// For how long a process spends without asking.
const LEASE_TIME: Duration = Duration::from_millis(100);
const SYNC_INTERVALS: [Duration; 2] = [Duration::from_millis(10), LEASE_TIME];

pub(crate) fn table(runtime: &Runtime, server: &Server, installed: &Installed) {
    table::part("A hot key from four processes", TEXT);
    table::head(&[
        "library",
        "promised",
        "admitted",
        "",
        "refused too early",
        "commands",
        "CPU, µs",
    ]);
    let measured = |name: &str, ask: &mut dyn FnMut() -> [usize; 3]| {
        let before = runtime.block_on(async {
            let () = server.command("FLUSHALL", &[]).await;
            count::reset(server).await
        });
        let [asked, admitted, too_early] = ask();
        let cost = runtime.block_on(async {
            // What is counted late.
            sleep(3 * LEASE_TIME).await;
            count::cost(server, before).await.of_one(asked as f64)
        });
        let over = admitted as f64 / f64::from(LIMIT) - 1.0;
        let said = match admitted {
            _ if over > 0.0 => format!("{:.1} % too many", over * 100.0),
            _ if asked < LIMIT as usize => "too few were asked".to_owned(),
            _ if over < 0.0 => format!("{:.1} % too few", -over * 100.0),
            _ => "right".to_owned(),
        };
        table::row(&[
            &name,
            &LIMIT,
            &admitted,
            &said,
            &too_early,
            &format!("{:.2}", cost.commands),
            &format!("{:.1}", cost.cpu_micros),
        ]);
    };
    let row = |name: &str, stores: Vec<Decide>| {
        let mut stores = Some(stores);
        let mut ask = || runtime.block_on(ask(stores.take().expect("asked once")));
        measured(name, &mut ask);
    };
    let quota = Quota::new(LIMIT.into(), WINDOW);
    let ours = |lease_time: Option<Duration>| {
        let store = |_| {
            let client = runtime.block_on(server.client());
            let store = libraries::store(&client);
            let store = match lease_time {
                Some(time) => store.remember_refusals(time).build().leased(time),
                None => store.build(),
            };
            libraries::over(store, SlidingWindow::new(quota))
        };
        (0..STORES).map(store).collect()
    };
    row("tollgate `SlidingWindow`", ours(None));
    row(
        "tollgate `SlidingWindow`, leased for 100 ms, and refusals remembered",
        ours(Some(LEASE_TIME)),
    );
    let buckets = |_| {
        let client = runtime.block_on(server.client());
        libraries::tollgate(&client, SlidingBuckets::new(quota, BUCKET))
    };
    row(
        "tollgate `SlidingBuckets`",
        (0..STORES).map(buckets).collect(),
    );
    let name = format!("trypema {}", version_of("trypema"));
    let url = &server.url();
    let direct = |_| runtime.block_on(libraries::trypema(url, LIMIT));
    if let Some(direct) = (0..STORES).map(direct).collect() {
        row(&name, direct);
    }
    for interval in SYNC_INTERVALS {
        let hybrid = |_| runtime.block_on(libraries::trypema_hybrid(url, LIMIT, interval));
        if let Some(hybrid) = (0..STORES).map(hybrid).collect() {
            row(&format!("{name}, hybrid, synced each {interval:?}"), hybrid);
        }
    }
    if let Some(version) = &installed.flexible {
        let millis = |it: Duration| it.as_millis() as usize;
        let numbers = [
            LIMIT as usize,
            STORES,
            TASKS,
            millis(INTERVAL),
            millis(lasting()),
        ];
        measured(
            &format!("rate-limiter-flexible {version} (npm), blocks in memory"),
            &mut || installed.flexible_fleet(url, numbers),
        );
    }
}

fn lasting() -> Duration {
    if quick() { FOR / 10 } else { FOR }
}

/// How many were asked and admitted, and how many were refused while fewer than fit had been
/// admitted.
async fn ask(stores: Vec<Decide>) -> [usize; 3] {
    let (tasks, begin) = (LocalSet::new(), Instant::now());
    let end = lasting();
    let (sums, mut asking) = (Rc::new(Cell::new([0; 3])), Vec::new());
    for store in stores {
        let store = Rc::new(RefCell::new(store));
        for task in 0..TASKS {
            let (store, sums) = (Rc::clone(&store), Rc::clone(&sums));
            asking.push(tasks.spawn_local(async move {
                let mut next = begin + INTERVAL * task as u32 / TASKS as u32;
                while next < begin + end {
                    sleep_until(next.into()).await;
                    let one = store.borrow_mut()(1);
                    let admits = one.await;
                    let [asked, admitted, too_early] = sums.get();
                    let is_too_early = admits == 0 && admitted < LIMIT as usize;
                    sums.set([
                        asked + 1,
                        admitted + admits,
                        too_early + usize::from(is_too_early),
                    ]);
                    next += INTERVAL;
                }
            }));
        }
    }
    tasks.await;
    for one in asking {
        one.await.expect("no panic");
    }
    sums.get()
}
