//! What a store has counted, as Prometheus is told.

use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate::{Quota, RateLimiter, algorithm::FixedWindow, observe::Metrics};
use tollgate_redis_tests::Server;

use crate::traffic::store;

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
        r#"tollgate_redis_in_flight{limit="api"} 0"#,
        r#"tollgate_redis_last_answer_age{limit="api"} 0."#,
    ] {
        assert!(told.contains(sample), "{sample} in {told}");
    }
}
