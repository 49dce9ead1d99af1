//! The layers, by the address of the peer unless said otherwise, each as its README has it.

use std::{net::IpAddr, time::Duration};

use axum::body::Body;
use tollgate::{
    LocalRateLimitLayer, RateLimitLayer,
    algorithm::TokenBucket,
    key::{Global, PeerIp},
    response::{Fields, Http},
    store::LocalStore,
};
use tower::limit::RateLimitLayer as TowerLimitLayer;
use tower_governor::{
    GovernorLayer,
    governor::{GovernorConfig, GovernorConfigBuilder},
    key_extractor::PeerIpKeyExtractor,
};
use tower_resilience_ratelimiter::RateLimiterLayer;

use crate::{
    limit::{Limit, WINDOW},
    own::token_bucket,
    peers,
};

/// tollgate's, with these header fields.
pub fn tollgate(limit: Limit, fields: Fields) -> LocalRateLimitLayer<TokenBucket, IpAddr, PeerIp> {
    let algorithm = token_bucket(limit).named("api");
    RateLimitLayer::new(algorithm, LocalStore::new(), PeerIp::new())
        .respond_with(Http::new().fields(fields))
}

/// tollgate's with one bucket for all, and without header fields.
pub fn tollgate_global(limit: Limit) -> LocalRateLimitLayer<TokenBucket, (), Global> {
    let algorithm = token_bucket(limit).named("api");
    RateLimitLayer::new(algorithm, LocalStore::new(), Global)
        .respond_with(Http::new().fields(Fields::Off))
}

type NoFields = governor::middleware::NoOpMiddleware<governor::clock::QuantaInstant>;
type WithFields = governor::middleware::StateInformationMiddleware;

/// tower_governor's, as it is by default.
pub fn tower_governor(limit: Limit) -> GovernorLayer<PeerIpKeyExtractor, NoFields, Body> {
    let mut config = GovernorConfigBuilder::default();
    let config = config.period(limit.interval).burst_size(limit.burst);
    let config: GovernorConfig<_, _> = config.finish().expect("a valid quota");
    GovernorLayer::new(config)
}

/// tower_governor's with `.use_headers()`.
pub fn tower_governor_with_headers(
    limit: Limit,
) -> GovernorLayer<PeerIpKeyExtractor, WithFields, Body> {
    let mut config = GovernorConfigBuilder::default();
    let config = config.period(limit.interval).burst_size(limit.burst);
    let config = config.use_headers().finish().expect("a valid quota");
    GovernorLayer::new(config)
}

/// axum-governor's, which always writes its fields.
pub fn axum_governor(limit: Limit) -> axum_governor::GovernorLayer<IpAddr> {
    let config = axum_governor::GovernorConfigBuilder::default()
        .with_extractor(axum_governor::extractor::PeerIp::default())
        .expect_connect_info()
        .quota_default(peers::governor::quota(limit).into())
        .finish();
    axum_governor::GovernorLayer::new(config.expect("a valid configuration"))
}

/// throttle-kit's, which always writes its fields.
pub fn throttle_kit(limit: Limit) -> throttle_kit::RateLimitLayer<throttle_kit::InMemoryBackend> {
    let backend = throttle_kit::InMemoryBackend::new();
    throttle_kit::RateLimitLayer::new(peers::throttle_kit::quota(limit), backend)
}

/// skp-ratelimit's, which always writes its fields, and whose key is the path whatever extractor it
/// is given.
pub fn skp_ratelimit(
    limit: Limit,
) -> skp_ratelimit::middleware::RateLimitLayer<
    skp_ratelimit::MemoryStorage,
    skp_ratelimit::GCRA,
    skp_ratelimit::GlobalKey,
> {
    skp_ratelimit::middleware::RateLimitLayer::new(
        skp_ratelimit::MemoryStorage::new(),
        skp_ratelimit::GCRA::new(),
        peers::skp_ratelimit::quota(limit),
        skp_ratelimit::key::GlobalKey::new(),
    )
}

/// tower-resilience's, which has one bucket for all and no fields; it refuses at once.
pub fn tower_resilience(limit: Limit) -> RateLimiterLayer {
    RateLimiterLayer::builder()
        .limit_for_period(1)
        .refresh_period(limit.interval)
        .burst_size(limit.burst as usize - 1)
        .timeout_duration(Duration::ZERO)
        .build()
        .expect("a valid configuration")
}

/// tower's own, which has one bucket for all and delays what is too much.
pub fn tower_limit(limit: Limit) -> TowerLimitLayer {
    TowerLimitLayer::new(limit.burst.into(), WINDOW)
}
