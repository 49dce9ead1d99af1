//! Rates over a time, and clocks that step back.

use std::time::Duration;

use crate::{
    limiters::BUCKETS,
    subject::{Bucket, Subject, admits, at_once},
    verdict::{By, history, row},
};

pub(crate) fn all() {
    sustained(600, "An interval that is no whole number of milliseconds");
    sustained(2_000, "A rate of more than a thousand a second");
    asked_often();
    step_back();
}

fn sustained(per_second: u32, title: &str) {
    let text = format!(
        "{per_second} a second with a burst of {}, asked for more than that throughout 2 seconds. What is promised is \
         the rate; a twentieth less is not called wrong, as one who sleeps may oversleep.",
        per_second / 5
    );
    history(title, &text);
    for (name, make) in BUCKETS {
        let bucket = Bucket {
            units: per_second,
            period: Duration::from_secs(1),
            burst: per_second / 5,
        };
        let mut subject = make(bucket);
        let subject = &mut *subject;
        let mut admitted = 0;
        while subject.elapsed() < Duration::from_secs(2) {
            admitted += at_once(subject, 4);
            subject.wait(Duration::from_micros(250));
        }
        let back = subject.elapsed().as_secs_f64() * f64::from(per_second);
        let most = back as u64 + u64::from(bucket.burst);
        row(name, most * 19 / 20..=most, admitted, By::Promise);
    }
}

const ONE_A_SECOND: Bucket = Bucket {
    units: 1,
    period: Duration::from_secs(1),
    burst: 10,
};

fn asked_often() {
    let text = "One a second with a burst of 10, asked each 1.9 µs throughout 10 seconds. Limiters that cannot be told \
        the time are left out.";
    history("Asked all the time", text);
    for (name, mut subject) in told(ONE_A_SECOND) {
        let mut admitted = 0;
        while subject.elapsed() < Duration::from_secs(10) {
            admitted += u64::from(admits(&mut *subject));
            subject.wait(Duration::from_nanos(1_900));
        }
        row(name, 19..=19, admitted, By::Promise);
    }
}

fn step_back() {
    let text = "One a second with a burst of 10, all of it used up; then the clock steps back by an hour, and there \
        is a request each second for a minute. More than a minute's 60 and the burst would be too many, and none \
        a caller who is locked out. tollgate promises that nobody waits for more than two spans, here 20 s. \
        Only limiters that are told the system's time are played it: the others read a clock that never steps back.";
    history("A clock that steps back", text);
    for (name, mut subject) in told(ONE_A_SECOND) {
        if !["tollgate", "throttlecrab"].contains(&name) {
            continue;
        }
        at_once(&mut *subject, 30);
        subject.step_back(Duration::from_secs(3_600));
        let mut admitted = 0;
        for _ in 0..60 {
            subject.wait(Duration::from_secs(1));
            admitted += u64::from(admits(&mut *subject));
        }
        row(name, 40..=70, admitted, By::Nothing("locked out"));
    }
}

/// Those that can be told the time.
fn told(bucket: Bucket) -> impl Iterator<Item = (&'static str, Box<dyn Subject>)> {
    BUCKETS.into_iter().filter_map(move |(name, make)| {
        let can_be_told = make(bucket).step_back(Duration::ZERO);
        can_be_told.then(|| (name, make(bucket)))
    })
}
