//! Many processes at one key: together they are admitted exactly the limit.

use fred::prelude::Config;
use tokio::task::spawn_blocking;

use tollgate_properties::numbers::Numbers;
use tollgate_redis_tests::{Cluster, Redis, Worker, connect, every_algorithm, patient};

const YEAR: u64 = 365 * 86_400 * 1_000_000;

/// Nothing comes back while the test lasts.
const NUMBERS: Numbers = Numbers::new((100, YEAR), 60, YEAR / 5, YEAR).beside(80, YEAR);

const PROCESSES: usize = 4;
const TASKS: usize = 16;
const CHECKS_OF_EACH: usize = 4;

#[test]
fn many_processes_at_one_key_are_admitted_exactly_the_limit() {
    let redis = Redis::start();
    together_they_are_admitted_the_limit(&redis.server().url());
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_at_one_key_of_a_cluster_are_admitted_exactly_the_limit() {
    let cluster = Cluster::start().await;
    let url = cluster.url();
    let together = spawn_blocking(move || together_they_are_admitted_the_limit(&url));
    together.await.unwrap();
    assert_eq!(cluster.keys_without_ttl("").await, [""; 0]);
}

fn together_they_are_admitted_the_limit(url: &str) {
    let start = |_| Worker::start("slow::processes::one_of_many_processes", url);
    let mut workers: Vec<_> = (0..PROCESSES).map(start).collect();
    let subjects = every_algorithm(&NUMBERS);
    let mut admitted = vec![0; subjects.len()];
    for worker in &mut workers {
        let (counts, is_whole) = worker.hear();
        assert!(is_whole && counts.len() == admitted.len(), "{counts:?}");
        for (all, its) in admitted.iter_mut().zip(counts) {
            *all += its.parse::<u64>().unwrap();
        }
    }
    for (subject, admitted) in subjects.iter().zip(admitted) {
        assert_eq!(admitted, subject.limit(), "{}", subject.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_processes() {
    let Some(url) = Worker::role() else { return };
    let client = connect(Config::from_url(&url).unwrap()).await;
    let store = patient(client).build();
    for subject in every_algorithm(&NUMBERS) {
        let tasks = (0..TASKS).map(|_| {
            let limiter = subject.bucket.limiter_over(store.clone(), "bob".to_owned());
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..CHECKS_OF_EACH {
                    admitted += u64::from(limiter.check(1).await.unwrap().is_admitted());
                }
                admitted
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut admitted = 0_u64;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        Worker::say(admitted);
    }
    Worker::done();
}
