//! The result of reading the header of a trusted proxy, and the log events about it.

use std::{net::IpAddr, sync::Once};

use http::HeaderName;

/// The result of reading the header of a trusted peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Client(IpAddr),
    /// Reading stopped before a client was found; this is the last proxy that was skipped.
    Unreadable(IpAddr),
    Missing,
}

impl Found {
    /// Logs every result but a client, each as an event of its own, and never what was sent.
    pub(super) fn trace(self, peer: IpAddr, header: &HeaderName) {
        static WARNED: Once = Once::new();

        match self {
            Self::Client(_) => {}
            Self::Unreadable(_) => tracing::debug!(
                name: "client_ip.header_unreadable",
                target: "tollgate::client_ip",
                %peer,
                %header,
                "the header of a trusted proxy names no address where the client should be, or is too long: the proxy's bucket is charged"
            ),
            Self::Missing => {
                WARNED.call_once(|| {
                    tracing::warn!(
                        target: "tollgate::client_ip",
                        %peer,
                        %header,
                        "a trusted proxy sent a request without the header that names the client; such requests \
                         share the proxy's bucket. It is logged once as a warning, then as `client_ip.header_missing`"
                    );
                });
                tracing::debug!(
                    name: "client_ip.header_missing",
                    target: "tollgate::client_ip",
                    %peer,
                    %header,
                    "the header of a trusted proxy is missing: the proxy's bucket is charged"
                );
            }
        }
    }
}
