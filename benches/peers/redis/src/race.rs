//! Right or wrong in Redis: many requests of one caller at once.

use std::time::Duration;

use fred::clients::Client;
use tokio::{runtime::Runtime, task::LocalSet};
use tollgate::{
    Quota,
    algorithm::{Gcra, SlidingBuckets},
};
use tollgate_peers::table;
use tollgate_redis_tests::Server;

use crate::{
    libraries::{self, BUCKET, Limit, WINDOW},
    subject::Decide,
};

const TEXT: &str = "20 units, of which none comes back meanwhile, and 200 requests of one caller under way at the same time: \
    how many were admitted.";

const LIMIT: Limit = Limit {
    interval: Duration::from_secs(3_600),
    burst: 20,
};

pub(crate) fn table(runtime: &Runtime, server: &Server, client: &Client) {
    let url = &server.url();
    table::part("Two hundred at once", TEXT);
    table::head(&["library", "promised", "admitted", ""]);
    let row = |name: &str, mut decide: Decide| {
        let admitted = runtime.block_on(async {
            // Two of them call a caller by the same key.
            let () = server.command("FLUSHALL", &[]).await;
            at_once(&mut decide).await
        });
        let promised = usize::from(LIMIT.burst);
        let said = match admitted {
            _ if admitted > promised => "**wrong**: too many",
            _ if admitted < promised => "**wrong**: too few",
            _ => "right",
        };
        table::row(&[&name, &promised, &admitted, &said]);
    };
    let most = u32::from(LIMIT.burst);
    let gcra = Gcra::new(Quota::one_every(LIMIT.interval)).burst(most.into());
    row("tollgate `Gcra`", libraries::tollgate(client, gcra));
    let buckets = SlidingBuckets::new(Quota::new(most.into(), WINDOW), BUCKET);
    row(
        "tollgate `SlidingBuckets`",
        libraries::tollgate(client, buckets),
    );
    row(
        "tower-rate-limit-fred",
        libraries::tower_rate_limit_fred(client, LIMIT),
    );
    row(
        "throttle-kit",
        runtime.block_on(libraries::throttle_kit(url, LIMIT)),
    );
    row(
        "skp-ratelimit",
        runtime.block_on(libraries::skp_ratelimit(url, LIMIT)),
    );
    if let Some(decide) = runtime.block_on(libraries::trypema(url, most)) {
        row("trypema", decide);
    }
}

async fn at_once(decide: &mut Decide) -> usize {
    let tasks = LocalSet::new();
    let all: Vec<_> = (0..200).map(|_| tasks.spawn_local(decide(1))).collect();
    tasks.await;
    let mut admitted = 0;
    for one in all {
        admitted += one.await.expect("no panic");
    }
    admitted
}
