//! What a store has counted, as an observer and Prometheus are told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate::{
    Quota, RateLimiter,
    algorithm::FixedWindow,
    observe::{Event, Metrics},
    store::Source,
};
use tollgate_redis_tests::{Server, crowd, patient};

use crate::traffic::store;

#[tokio::test]
async fn an_observer_sees_which_decisions_did_not_ask_redis() {
    let server = Server::start().await;
    let store = patient(server.client().await).remember_refusals(Duration::from_secs(60));
    let store = store.build().leased(Duration::from_secs(1));
    let sources: Arc<Mutex<HashMap<_, u64>>> = Arc::default();
    let seen = Arc::clone(&sources);
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(1_000)), store.clone());
    let limiter = limiter.observe(move |event: &Event<'_, u32>| {
        let mut sources = seen.lock().unwrap();
        *sources.entry(event.source().unwrap()).or_default() += 1;
    });
    let one_by_one = async || {
        for _ in 0..600 {
            limiter.check(&7).await.unwrap();
        }
    };
    one_by_one().await;
    crowd(600, &limiter, |limiter, _| async move {
        limiter.check(&7).await.unwrap()
    })
    .await;
    one_by_one().await;
    let (usage, sources) = (store.usage(), sources.lock().unwrap());
    for (source, decisions) in [
        (Source::Leased, usage.leased),
        (Source::Remembered, usage.remembered),
        (Source::Store, 1_800 - usage.leased - usage.remembered),
    ] {
        assert!(decisions > 0, "{usage:?}");
        assert_eq!(sources[&source], decisions, "{source:?}: {usage:?}");
    }
}

#[tokio::test]
async fn what_a_store_has_counted_is_told_to_prometheus() {
    let server = Server::start().await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let store = store(server.client().await);
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(1)), store.clone());
    for is_admitted in [true, false, false] {
        let decision = limiter.check(&7).await.unwrap();
        assert_eq!(decision.is_admitted(), is_admitted);
    }
    server.kill();
    limiter.check(&7).await.unwrap_err();
    Metrics::new("api").record_usage(&store.usage());
    let told = handle.render();
    for sample in [
        r#"tollgate_redis_decisions{limit="api",outcome="admitted"} 1"#,
        r#"tollgate_redis_decisions{limit="api",outcome="refused"} 2"#,
        r#"tollgate_redis_decisions{limit="api",outcome="unavailable"} 1"#,
        r#"tollgate_redis_decisions{limit="api",outcome="misconfigured"} 0"#,
        r#"tollgate_redis_joined{limit="api"} 0"#,
        r#"tollgate_redis_remembered{limit="api"} 0"#,
        r#"tollgate_redis_leased{limit="api"} 0"#,
        r#"tollgate_redis_units_leased{limit="api"} 0"#,
        r#"tollgate_redis_units_given_back{limit="api"} 0"#,
        r#"tollgate_redis_units_lost{limit="api"} 0"#,
        r#"tollgate_redis_units_held{limit="api"} 0"#,
        r#"tollgate_redis_in_flight{limit="api"} 0"#,
        r#"tollgate_redis_last_answer_age{limit="api"} 0."#,
    ] {
        assert!(told.contains(sample), "{sample} in {told}");
    }
}
