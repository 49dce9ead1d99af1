//! The texts are pinned: servers know them by their digests, and processes of two releases share
//! states.

use crate::algorithm::{
    FixedWindow, Gcra, LeakyBucket, LeakyBucketQueue, MinInterval, SlidingBuckets, SlidingLog,
    SlidingWindow, TokenBucket,
};

use super::*;

const REFRESH: &str = "TOLLGATE_PIN_SCRIPTS";

fn digests_of<A: Scripted>(name: &str) -> String {
    let Scripts {
        decide,
        peek,
        settle,
        refund,
        withdraw,
        take_back,
        ..
    } = Scripts::of::<A>();
    let mut lines = String::new();
    let tasks = [
        ("decide", Some(decide)),
        ("peek", Some(peek)),
        ("settle", Some(settle)),
        ("refund", Some(refund)),
        ("withdraw", withdraw),
        ("take back", Some(take_back)),
    ];
    for (task, script) in tasks {
        if let Some(script) = script {
            lines += &format!("{} {name}: {task}\n", script.sha1.as_str().unwrap());
        }
    }
    lines
}

#[test]
fn the_text_of_every_script_is_the_one_that_was_pinned() {
    let found = [
        digests_of::<FixedWindow>("FixedWindow"),
        digests_of::<SlidingWindow>("SlidingWindow"),
        digests_of::<SlidingLog>("SlidingLog"),
        digests_of::<SlidingBuckets>("SlidingBuckets"),
        digests_of::<TokenBucket>("TokenBucket"),
        digests_of::<LeakyBucket>("LeakyBucket"),
        digests_of::<LeakyBucketQueue>("LeakyBucketQueue"),
        digests_of::<Gcra>("Gcra"),
        digests_of::<MinInterval>("MinInterval"),
        digests_of::<(TokenBucket, SlidingLog)>("(TokenBucket, SlidingLog)"),
        digests_of::<(LeakyBucketQueue, FixedWindow, MinInterval)>(
            "(LeakyBucketQueue, FixedWindow, MinInterval)",
        ),
        digests_of_each(
            "EachOf((TokenBucket, FixedWindow))",
            vec![TokenBucket::script(), FixedWindow::script()],
        ),
        digests_of_each(
            "EachOf((SlidingLog, (TokenBucket, SlidingLog)))",
            vec![SlidingLog::script(), <(TokenBucket, SlidingLog)>::script()],
        ),
    ]
    .concat();
    if std::env::var_os(REFRESH).is_some() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/store/redis/scripts/pinned.txt"
        );
        std::fs::write(path, &found).expect("the pinned digests, written");
        return;
    }
    assert_eq!(
        found,
        include_str!("pinned.txt"),
        "a script has changed: if its state is laid out as before, run this test with {REFRESH}=1; if not, give the \
         layout another name first"
    );
}

fn digests_of_each(name: &str, limits: Vec<Script>) -> String {
    let EachScripts { decide, peek, .. } = EachScripts::of(limits);
    let line =
        |task, script: Loadable| format!("{} {name}: {task}\n", script.sha1.as_str().unwrap());
    line("decide", decide) + &line("peek", peek)
}
