//! The answer to a gRPC caller: this crate's, or one of the user's own.

#[cfg(feature = "tonic")]
use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::Response;

use super::{
    Reason, Refusal, body::FromBytes, field_writer::FieldWriter, grpc_protocol::GrpcProtocol,
    problem::not_counted,
};
use crate::error::StoreErrorKind;

/// Answers gRPC calls, with the user's closure if there is one.
#[derive(Clone, Default)]
#[cfg_attr(not(feature = "tonic"), derive(Debug))]
pub(super) struct GrpcRenderer {
    #[cfg(feature = "tonic")]
    status_of: Option<Arc<StatusOf>>,
}

#[cfg(feature = "tonic")]
type StatusOf = dyn Fn(&Refusal<'_>) -> tonic::Status + Send + Sync;

impl GrpcRenderer {
    pub(super) const fn new() -> Self {
        Self {
            #[cfg(feature = "tonic")]
            status_of: None,
        }
    }

    pub(super) fn answer<B: FromBytes>(
        &self,
        protocol: GrpcProtocol,
        refusal: &Refusal<'_>,
        fields: &FieldWriter,
    ) -> Response<B> {
        let response = self.rendered(protocol, refusal, fields);
        let response = response.unwrap_or_else(|| built_in(protocol, refusal, fields));
        response.map(B::from_bytes)
    }

    #[cfg(not(feature = "tonic"))]
    fn rendered(
        &self,
        _protocol: GrpcProtocol,
        _refusal: &Refusal<'_>,
        _fields: &FieldWriter,
    ) -> Option<Response<Bytes>> {
        None
    }
}

fn built_in(
    protocol: GrpcProtocol,
    refusal: &Refusal<'_>,
    fields: &FieldWriter,
) -> Response<Bytes> {
    match refusal.reason() {
        Reason::Limited(decision) => protocol.refuse(decision.clone(), fields),
        Reason::Rejected(rejection) => protocol.reject(rejection.clone()),
        Reason::StoreFailed(StoreErrorKind::Unavailable) => protocol.unavailable(),
        Reason::StoreFailed(_) => protocol.reject(not_counted()),
    }
}

#[cfg(feature = "tonic")]
impl GrpcRenderer {
    pub(super) fn by(
        status_of: impl Fn(&Refusal<'_>) -> tonic::Status + Send + Sync + 'static,
    ) -> Self {
        Self {
            status_of: Some(Arc::new(status_of)),
        }
    }

    /// The closure's answer. `OK` counts as none: it would end the call as if it had succeeded.
    fn rendered(
        &self,
        protocol: GrpcProtocol,
        refusal: &Refusal<'_>,
        fields: &FieldWriter,
    ) -> Option<Response<Bytes>> {
        let status = self.status_of.as_ref()?(refusal);
        if status.code() == tonic::Code::Ok {
            return None;
        }
        let mut headers = http::HeaderMap::new();
        status.add_header(&mut headers).ok()?;
        Some(protocol.rendered(headers, refusal, fields))
    }
}

#[cfg(feature = "tonic")]
impl fmt::Debug for GrpcRenderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcRenderer")
            .field("has_closure", &self.status_of.is_some())
            .finish()
    }
}
