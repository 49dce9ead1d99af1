//! Bursts, and requests of several units.

use std::time::Duration;

use crate::{
    limiters::{BUCKETS, Make},
    subject::{Bucket, Subject, at_once},
    verdict::{By, history, row},
};

const TENTH: Duration = Duration::from_millis(100);
const TEN: Bucket = Bucket {
    units: 10,
    period: Duration::from_secs(1),
    burst: 10,
};

pub(crate) fn all() {
    let text = "A burst of 10, one back each 100 ms. 30 requests at once from a caller who was never seen.";
    history("A burst of the first request on", text);
    for (name, make) in full_again_after_a_period() {
        let admitted = undisturbed(TENTH, || make(TEN), |_| {}, 30);
        row(name, 10..=10, admitted, By::Promise);
    }

    let text = "The same, all of it used up, then 1.25 s without a request: the time in which it is won back, and a \
        quarter more.";
    history("A burst after idleness", text);
    for (name, make) in full_again_after_a_period() {
        let exhausted = |subject: &mut dyn Subject| {
            at_once(subject, 30);
            subject.wait(Duration::from_millis(1_250));
        };
        let admitted = undisturbed(TENTH, || make(TEN), exhausted, 30);
        row(name, 10..=10, admitted, By::Promise);
    }

    let text = "A burst of 1, one back each second: never two at once. 30 requests at once.";
    history("A burst of one", text);
    for (name, make) in full_again_after_a_period() {
        let one = Bucket {
            units: 1,
            period: Duration::from_secs(1),
            burst: 1,
        };
        row(
            name,
            1..=1,
            undisturbed(one.period, || make(one), |_| {}, 30),
            By::Promise,
        );
    }

    weights();
}

/// Those of a rate and a burst, and one that knows no other burst than the units of its period.
fn full_again_after_a_period() -> impl Iterator<Item = (&'static str, Make)> {
    let tower: Make = |bucket| crate::windows::tower_limit(bucket.units, bucket.period);
    BUCKETS
        .into_iter()
        .chain([("tower `RateLimitLayer`", tower)])
}

/// The requests of a burst that were admitted, of one that was over before a unit could come back.
fn undisturbed(
    interval: Duration,
    make: impl Fn() -> Box<dyn Subject>,
    before: impl Fn(&mut dyn Subject),
    requests: u32,
) -> u64 {
    loop {
        let mut subject = make();
        before(&mut *subject);
        let start = subject.elapsed();
        let admitted = at_once(&mut *subject, requests);
        if subject.elapsed() - start < interval / 4 {
            return admitted;
        }
    }
}

fn weights() {
    let text = "10 units, of which none comes back meanwhile. Requests of 7, 4 and 3 units, then 3 more of 1: the \
        units that were admitted. Limiters that know requests of one unit only are left out.";
    history("Weights near the limit", text);
    let slow = Bucket {
        units: 10,
        period: Duration::from_secs(36_000),
        burst: 10,
    };
    for (name, mut subject) in weighted(slow) {
        let units = [7, 4, 3, 1, 1, 1]
            .into_iter()
            .filter(|units| subject.take(*units) == Some(true));
        row(name, 10..=10, units.map(u64::from).sum(), documented(name));
    }

    history(
        "A weight that never fits",
        "The same limit, and one request of 11 units from a caller who was never seen.",
    );
    for (name, mut subject) in weighted(slow) {
        let admitted = if subject.take(11) == Some(true) {
            11
        } else {
            0
        };
        row(name, 0..=0, admitted, documented(name));
    }
}

/// Those that know requests of several units.
fn weighted(bucket: Bucket) -> impl Iterator<Item = (&'static str, Box<dyn Subject>)> {
    let of_buckets = BUCKETS.into_iter().filter_map(move |(name, make)| {
        make(bucket).take(2)?;
        Some((name, make(bucket)))
    });
    let of_windows = crate::windows::weighted(bucket.burst, bucket.period);
    of_buckets.chain(of_windows)
}

fn documented(name: &str) -> By {
    match name {
        // What is there is judged, without what is asked for.
        "trypema" => By::Words("Check current window usage … If allowed … add count"),
        _ => By::Promise,
    }
}
