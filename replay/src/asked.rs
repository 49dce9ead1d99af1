//! A line of a log as the request that a layer would see.

use std::net::SocketAddr;

use http::Request;

use crate::{extensions::ExtensionSources, logged::Logged};

/// A request to decide about, and when it came.
#[derive(Debug)]
pub struct Asked {
    /// In microseconds since the Unix epoch.
    pub at_micros: u64,
    /// As a layer would see it.
    pub request: Request<()>,
}

impl Asked {
    /// An empty request, to be filled.
    pub fn empty() -> Self {
        Self {
            at_micros: 0,
            request: Request::new(()),
        }
    }

    /// Replaces it by the request of this line.
    pub fn fill(&mut self, logged: Box<Logged>, extensions: &ExtensionSources) {
        let request = &mut self.request;
        self.at_micros = logged.started_micros;
        logged.headers.copy_to(request.headers_mut());
        let peer = logged.address.map(|ip| SocketAddr::new(ip, 0));
        let extended = request.extensions_mut();
        match (extended.get_mut(), peer) {
            // No allocation.
            (Some(place), Some(peer)) => *place = peer,
            (None, Some(peer)) => {
                extended.insert(peer);
            }
            (Some::<&mut SocketAddr>(_), None) => {
                extended.remove::<SocketAddr>();
            }
            (None, None) => {}
        }
        extensions.put(logged.user.as_deref(), request);
        *request.method_mut() = logged.method;
        *request.uri_mut() = logged.uri;
    }
}
