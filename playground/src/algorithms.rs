//! Every algorithm of tollgate, in the order of the table in its docs. One with an entry here is in
//! the form, is read and run, has its line of Rust, its bound and its reasons, and stands in the
//! table and in the pictures.

use serde_json::{Value, json};
use tollgate::algorithm::{
    FixedWindow, Gcra, InFlight, LeakyBucket, LeakyBucketQueue, MinInterval, SlidingBuckets,
    SlidingLog, SlidingWindow, TokenBucket, WaitAtMost,
};
use tollgate_algorithms::formulas;

use crate::{
    any_rule::AnyRule,
    bound::{Bound, Counts, Numbers},
    field::{
        BURST, CAPACITY, FROM_FIRST_REQUEST, Field, INTERVAL, PER_REQUEST, PRECISION, QUOTA,
        REQUESTS, SETTLED, STRICT, WAIT_AT_MOST,
    },
    limit::{Fields, Limit},
    reading::Reading,
    span,
};

/// An algorithm.
#[derive(Debug)]
pub struct Entry {
    /// What a file calls it.
    pub name: &'static str,
    /// Its fields, in the order in which the docs have them.
    pub fields: &'static [Field],
    /// What makes it in Rust, of the fields that it needs and of those that it may have.
    pub(crate) rust: &'static str,
    /// Has tollgate read it.
    pub(crate) read: fn(&Reading) -> Result<AnyRule, String>,
    /// The printed bound, on units.
    pub(crate) bound: fn(&Numbers<'_>) -> Bound,
    /// Why there is no room for a request.
    pub(crate) refusal: fn(&Limit) -> String,
    /// Its rows where all algorithms are shown; none, where it is the rule of another one.
    pub(crate) rows: &'static [Row],
}

/// An algorithm with what it may be besides, where all algorithms are shown.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) called: &'static str,
    /// The fields that it has, beside those that it needs.
    pub(crate) with: &'static str,
    /// The name of its own picture, if it has one.
    pub(crate) picture: Option<&'static str>,
}

/// All of them.
pub static ALGORITHMS: &[Entry] = &[
    Entry {
        name: "token-bucket",
        fields: &[QUOTA, BURST, WAIT_AT_MOST, PER_REQUEST, SETTLED],
        rust: "TokenBucket::new({needs}){has}",
        read: |limit| match limit.has(WAIT_AT_MOST.name) {
            true => limit.plain::<WaitAtMost<TokenBucket>>(),
            false => limit.holdable(TokenBucket::per_request, TokenBucket::settled),
        },
        bound: of_a_bucket,
        refusal: why_a_bucket_refuses,
        rows: &[
            Row {
                called: "token/leaky bucket, GCRA",
                with: "{}",
                picture: Some("token_bucket"),
            },
            Row {
                called: "… with a burst of 4",
                with: r#"{"burst": 4}"#,
                picture: None,
            },
            Row {
                called: "burst of 4, then waits",
                with: r#"{"burst": 4, "wait-at-most": "500ms"}"#,
                picture: Some("wait_at_most"),
            },
        ],
    },
    Entry {
        name: "gcra",
        fields: &[QUOTA, BURST, WAIT_AT_MOST, PER_REQUEST, SETTLED],
        rust: "Gcra::new({needs}){has}",
        read: |limit| match limit.has(WAIT_AT_MOST.name) {
            true => limit.plain::<WaitAtMost<Gcra>>(),
            false => limit.holdable(Gcra::per_request, Gcra::settled),
        },
        bound: of_a_bucket,
        refusal: why_a_bucket_refuses,
        rows: &[],
    },
    Entry {
        name: "leaky-bucket",
        fields: &[QUOTA, CAPACITY, WAIT_AT_MOST, PER_REQUEST, SETTLED],
        rust: "LeakyBucket::new({needs}){has}",
        read: |limit| match limit.has(WAIT_AT_MOST.name) {
            true => limit.plain::<WaitAtMost<LeakyBucket>>(),
            false => limit.holdable(LeakyBucket::per_request, LeakyBucket::settled),
        },
        bound: of_a_bucket,
        refusal: why_a_bucket_refuses,
        rows: &[],
    },
    Entry {
        name: "fixed-window",
        fields: &[QUOTA, FROM_FIRST_REQUEST, PER_REQUEST, SETTLED],
        rust: "FixedWindow::new({needs}){has}",
        read: |limit| limit.holdable(FixedWindow::per_request, FixedWindow::settled),
        bound: |it| match it.limit.is_set(FROM_FIRST_REQUEST.name) {
            true => {
                let most = formulas::window_from_first_request(it.n, it.period);
                it.most(most, Counts::Units, "2n − 1")
            }
            false => it.most(formulas::fixed_window(it.n, it.period), Counts::Units, "2n"),
        },
        refusal: |_| "The window has taken all of its quota; the next one is empty.".to_owned(),
        rows: &[
            Row {
                called: "fixed window",
                with: "{}",
                picture: Some("fixed_window"),
            },
            Row {
                called: "… from first request",
                with: r#"{"from-first-request": true}"#,
                picture: None,
            },
        ],
    },
    Entry {
        name: "sliding-log",
        fields: &[QUOTA, PER_REQUEST, SETTLED],
        rust: "SlidingLog::new({needs}){has}",
        read: |limit| limit.holdable(SlidingLog::per_request, SlidingLog::settled),
        bound: |it| it.most(formulas::sliding_log(it.n), Counts::Units, "n"),
        refusal: |limit| {
            let period = limit.quota().map_or(0, |quota| quota.period().as_micros());
            let period = span::told(period as u64);
            format!(
                "What was admitted in the last {period} leaves no room until the oldest is as old."
            )
        },
        rows: &[Row {
            called: "sliding log",
            with: "{}",
            picture: Some("sliding_log"),
        }],
    },
    Entry {
        name: "sliding-buckets",
        fields: &[QUOTA, PRECISION, STRICT, PER_REQUEST, SETTLED],
        rust: "SlidingBuckets::new({needs}){has}",
        read: |limit| limit.holdable(SlidingBuckets::per_request, SlidingBuckets::settled),
        bound: |it| match it.limit.is_set(STRICT.name) {
            true => it.most(formulas::sliding_log(it.n), Counts::Units, "n"),
            false => {
                let most = formulas::sliding_buckets(it.n, it.micros(PRECISION.name).unwrap_or(1));
                it.most(most, Counts::Units, "2n")
            }
        },
        refusal: |_| {
            let full =
                "The sub-counters of the last period leave no room until the oldest is dropped.";
            full.to_owned()
        },
        rows: &[
            Row {
                called: "sliding buckets",
                with: "{}",
                picture: Some("sliding_buckets"),
            },
            Row {
                called: "… strict",
                with: r#"{"strict": true}"#,
                picture: None,
            },
        ],
    },
    Entry {
        name: "sliding-window",
        fields: &[QUOTA, PER_REQUEST, SETTLED],
        rust: "SlidingWindow::new({needs}){has}",
        read: |limit| limit.holdable(SlidingWindow::per_request, SlidingWindow::settled),
        bound: |it| {
            let most = formulas::sliding_window(it.n, it.period);
            it.most(most, Counts::Units, "n + ⌊n(P−2)/P⌋")
        },
        refusal: |_| {
            let full = "This window's count and the part of the previous one that still counts leave no room.";
            full.to_owned()
        },
        rows: &[Row {
            called: "sliding window",
            with: "{}",
            picture: Some("sliding_window"),
        }],
    },
    Entry {
        name: "leaky-bucket-queue",
        fields: &[QUOTA, CAPACITY, PER_REQUEST],
        rust: "LeakyBucket::new({needs}){has}.queue()",
        read: |limit| limit.countable(LeakyBucketQueue::per_request),
        bound: |it| {
            let most = formulas::queue(it.n, it.period, 1, it.cost);
            it.if_ticks_are_fine(it.most(most, Counts::Releases, "n + c − 1, as released"))
        },
        refusal: |limit| {
            let quota = limit.text(QUOTA.name).unwrap_or_default();
            format!("The queue is full; it moves on at {quota}.")
        },
        rows: &[Row {
            called: "queue",
            with: "{}",
            picture: Some("leaky_bucket_queue"),
        }],
    },
    Entry {
        name: "min-interval",
        fields: &[INTERVAL],
        rust: "MinInterval::new({needs}){has}",
        read: |limit| limit.countable(MinInterval::per_request),
        bound: |it| {
            let interval = it.micros(INTERVAL.name).unwrap_or(1);
            let most = formulas::min_interval(interval, interval);
            Bound {
                span_micros: interval as u64,
                ..it.most(most, Counts::Requests, "⌈P/d⌉ requests, and P is d here")
            }
        },
        refusal: |limit| {
            let interval = limit.text(INTERVAL.name).unwrap_or_default();
            format!("The last one was admitted less than {interval} ago.")
        },
        rows: &[Row {
            called: "min interval, 100 ms",
            with: "{}",
            picture: Some("min_interval"),
        }],
    },
    Entry {
        name: "in-flight",
        fields: &[REQUESTS],
        rust: "InFlight::new({needs}){has}",
        read: |limit| limit.plain::<InFlight>(),
        bound: |it| {
            let requests = it.limit.number(REQUESTS.name).unwrap_or(0);
            it.most(requests.into(), Counts::InFlight, "n at any instant")
        },
        refusal: |_| "All places are taken by requests that still run.".to_owned(),
        rows: &[Row {
            called: "4 in flight, 300 ms each",
            with: "{}",
            picture: Some("in_flight"),
        }],
    },
];

/// Each name with its fields, as JSON for the form.
pub fn description() -> String {
    let of = |entry: &Entry| {
        let fields: Vec<_> = entry.fields.iter().map(Field::description).collect();
        json!([entry.name, fields])
    };
    Value::from_iter(ALGORITHMS.iter().map(of)).to_string()
}

/// All rows, each with its algorithm.
pub(crate) fn rows() -> impl Iterator<Item = (&'static Entry, &'static Row)> {
    let of = |entry: &'static Entry| entry.rows.iter().map(move |row| (entry, row));
    ALGORITHMS.iter().flat_map(of)
}

impl Entry {
    /// The limit of one of its rows; `value` is that of a field of the algorithm which the row does
    /// not have by itself.
    pub(crate) fn limit(
        &self,
        row: &Row,
        value: impl Fn(&Field) -> Option<Value>,
    ) -> Result<Limit, String> {
        let mut fields = row.fields();
        fields.insert("algorithm".to_owned(), self.name.into());
        for field in self.fields {
            if let Some(value) = value(field) {
                fields.entry(field.name).or_insert(value);
            }
        }
        Limit::read(fields)
    }
}

impl Row {
    /// The fields that it has by itself.
    pub(crate) fn fields(&self) -> Fields {
        serde_json::from_str(self.with).expect("a map of fields")
    }
}

fn of_a_bucket(it: &Numbers<'_>) -> Bound {
    let Numbers {
        n, period, burst, ..
    } = *it;
    it.if_ticks_are_fine(match it.limit.text(WAIT_AT_MOST.name) {
        Some(_) => {
            let most = formulas::wait_at_most(n, period, 1, burst, it.cost);
            it.most(most, Counts::Releases, "max(burst, c) + n − 1, as released")
        }
        None => {
            let most = formulas::debt_bucket(burst, n, period, 1);
            it.most(most, Counts::Units, "burst + ⌊n(P−1)/P⌋")
        }
    })
}

fn why_a_bucket_refuses(limit: &Limit) -> String {
    let quota = limit.text(QUOTA.name).unwrap_or_default();
    match limit.text(WAIT_AT_MOST.name) {
        Some(wait) => {
            format!("It would have to wait for longer than {wait}, as it leaves at {quota}.")
        }
        None => format!("What is missing comes back at {quota}, evenly."),
    }
}
