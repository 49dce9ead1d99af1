//! Servers on the loopback interface, on a port that nobody else has.

use std::{convert::Infallible, net::SocketAddr};

use axum::{Router, extract::Request, response::Response};
use tokio::{net::TcpListener, task::JoinHandle};
use tollgate::{Timestamp, clock::ManualClock, store::LocalStore};
use tower::Service;

/// A server that ends with the test.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Runs this future as the server that listens there.
    pub fn run(address: SocketAddr, server: impl Future<Output = ()> + Send + 'static) -> Self {
        let task = tokio::spawn(server);
        Self { address, task }
    }

    /// A listener for a server, and where it listens.
    pub async fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("the loopback interface has a free port");
        let address = listener.local_addr().expect("it is bound");
        (listener, address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves the router, which is told the address of each peer.
pub async fn serve(app: Router) -> Server {
    let (listener, address) = Server::listen().await;
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    Server::run(address, async {
        axum::serve(listener, app)
            .await
            .expect("the server goes on");
    })
}

/// Serves the router, which is told nothing of its peers.
pub async fn serve_without_connect_info(app: Router) -> Server {
    let (listener, address) = Server::listen().await;
    Server::run(address, async {
        axum::serve(listener, app)
            .await
            .expect("the server goes on");
    })
}

/// Serves a service that is wrapped around a router from outside.
pub async fn serve_service<S>(service: S) -> Server
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let (listener, address) = Server::listen().await;
    let make = tower::make::Shared::new(service);
    Server::run(address, async {
        axum::serve(listener, make)
            .await
            .expect("the server goes on");
    })
}

/// A store whose time stands still until its clock is turned.
pub fn fresh_store<A, K>() -> (ManualClock, LocalStore<A, K, ManualClock>)
where
    A: tollgate::algorithm::Algorithm,
{
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    (clock.clone(), LocalStore::builder().clock(clock).build())
}
