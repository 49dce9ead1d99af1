//! A limit in front of a gRPC server, seen from its caller: tonic's own client, over a real
//! connection.
//!
//! A refused call is answered with `RESOURCE_EXHAUSTED` and the time to wait, in two forms:
//! `google.rpc.RetryInfo`, for people and programs, and the pushback that client libraries obey.
//!
//! ```text
//! cargo run -p tonic_server
//! ```

use std::{error::Error, time::Duration};

use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_hour(3)).named("calls"),
        LocalStore::new(),
        PeerIp::new(),
    );
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let address = incoming.local_addr()?;
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(limit).add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));

    let channel = Endpoint::from_shared(format!("http://{address}"))?;
    let mut client = HealthClient::new(channel.connect().await?);
    for number in 1..=3 {
        let response = client.check(HealthCheckRequest::default()).await?;
        let left = response.metadata().get("ratelimit").ok_or("no field")?;
        println!("call {number}: OK, {}", left.to_str()?);
    }
    let refused = client.check(HealthCheckRequest::default()).await;
    tell(&refused.err().ok_or("the fourth call was not refused")?)
}

/// What a caller can read from a refusal.
fn tell(status: &Status) -> Result<(), Box<dyn Error>> {
    println!("call 4: {:?}: {}", status.code(), status.message());
    assert_eq!(status.code(), Code::ResourceExhausted);

    let info = status.get_details_retry_info().ok_or("no RetryInfo")?;
    let delay = info.retry_delay.ok_or("no delay")?;
    println!("  RetryInfo: {delay:?}");

    let pushback = status.metadata().get("grpc-retry-pushback-ms");
    let pushback: u64 = pushback.ok_or("no pushback")?.to_str()?.parse()?;
    println!("  grpc-retry-pushback-ms: {pushback}");

    let quota = status
        .get_details_quota_failure()
        .ok_or("no QuotaFailure")?;
    println!("  QuotaFailure: {:?}", quota.violations);

    // Three an hour: one in twenty minutes, less what has passed since the first call.
    let twenty_minutes = Duration::from_secs(1_200);
    assert!(delay <= twenty_minutes && delay > twenty_minutes / 2);
    assert!(Duration::from_millis(pushback).abs_diff(delay) < Duration::from_millis(1));
    assert_eq!(quota.violations.len(), 1);
    Ok(())
}
