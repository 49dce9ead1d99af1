//! What must hold of all extractors.

use std::{fmt::Debug, net::IpAddr};

use super::*;

fn usable<T: Debug + Clone + Send + Sync + 'static>() {}

#[test]
fn everything_can_be_cloned_printed_and_sent_between_threads() {
    usable::<Global>();
    usable::<PeerIp>();
    usable::<ClientIp>();
    usable::<Header>();
    usable::<HeaderKey>();
    usable::<FromExtension<IpAddr>>();
    usable::<FromFn<fn(&u32) -> Result<Option<u32>, MissingKey>>>();
    usable::<MissingKey>();
    #[cfg(feature = "axum")]
    usable::<MatchedRoute>();
    #[cfg(feature = "axum")]
    usable::<RouteKey>();
    #[cfg(feature = "redis")]
    usable::<KeyParts>();
}

#[test]
fn an_extension_that_only_its_own_thread_may_have_costs_nobody_the_send() {
    fn send<T: Send + Sync>() {}
    send::<FromExtension<std::rc::Rc<u8>>>();
    send::<TupleRejection>();
}
