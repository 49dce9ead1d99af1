//! Where a rule finds its key, and the value that selects a plan.

use std::{any::type_name, borrow::Cow, fmt, sync::Arc};

use http::{Extensions, HeaderName, Request};
use serde::Deserialize;

use crate::key::{
    ClientIp, Header, HeaderKey, KeyExtractor, MissingKey, PeerIp, matched_route, missing_extension,
};

use super::key::KeyValue;

/// Where a rule finds its key.
pub(crate) enum KeySource {
    Everyone,
    Address(PeerIp),
    Client(Arc<ClientIp>),
    Route,
    Header(Header, OnMissing),
    Extension(NamedExtension, OnMissing),
    Several(Box<[KeySource]>),
}

/// What to do with a request that has no such header or extension.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnMissing {
    #[default]
    Reject,
    Next,
    Shared,
}

impl KeySource {
    /// The key of a request; `None` if the rule does not apply to it.
    pub(super) fn find<B>(&self, request: &Request<B>) -> Result<Option<KeyValue>, MissingKey> {
        match self {
            Self::Everyone => Ok(Some(KeyValue::Everyone)),
            Self::Address(by) => Ok(by.extract(request)?.map(KeyValue::Address)),
            Self::Header(by, _) => Ok(by.extract(request)?.map(KeyValue::Value)),
            Self::Client(by) => Ok(by.extract(request)?.map(KeyValue::Address)),
            Self::Route => {
                let route = matched_route(request).map(HeaderKey::from);
                Ok(Some(route.map_or(KeyValue::Everyone, KeyValue::Value)))
            }
            Self::Extension(extension, on_missing) => {
                match ((extension.read)(request.extensions()), on_missing) {
                    (Some(value), _) => Ok(Some(KeyValue::Value(HeaderKey::from(&*value)))),
                    (None, OnMissing::Next) => Ok(None),
                    (None, OnMissing::Shared) => Ok(Some(KeyValue::Everyone)),
                    (None, OnMissing::Reject) => Err(missing_extension(extension.of)),
                }
            }
            Self::Several(sources) => {
                let keys = sources.iter().map(|source| source.find(request));
                let keys = keys.collect::<Result<Option<Arc<[_]>>, _>>()?;
                Ok(keys.map(KeyValue::Several))
            }
        }
    }

    /// Whether a rule with this key applies to a request, whatever part of the key that lacks.
    pub(super) fn applies_always(&self) -> bool {
        match self {
            Self::Header(_, on_missing) | Self::Extension(_, on_missing) => match on_missing {
                OnMissing::Next => false,
                OnMissing::Reject | OnMissing::Shared => true,
            },
            Self::Several(sources) => sources.iter().all(Self::applies_always),
            _ => true,
        }
    }
}

type ReadExtension = dyn Fn(&Extensions) -> Option<String> + Send + Sync;

/// A value in a request's extensions, with its name in the file.
#[derive(Clone)]
pub(crate) struct NamedExtension {
    read: Arc<ReadExtension>,
    of: &'static str,
}

impl NamedExtension {
    pub(super) fn new<T, V>(value: impl Fn(&T) -> V + Send + Sync + 'static) -> Self
    where
        T: Send + Sync + 'static,
        V: fmt::Display,
    {
        Self {
            read: Arc::new(move |extensions| Some(value(extensions.get()?).to_string())),
            of: type_name::<T>(),
        }
    }
}

/// The value that selects a request's plan.
pub(crate) enum PlanSource {
    Header(HeaderName),
    Extension(NamedExtension),
}

impl PlanSource {
    /// The value, if the request has exactly one.
    pub(super) fn value<'a, B>(&self, request: &'a Request<B>) -> Option<Cow<'a, str>> {
        match self {
            Self::Header(name) => {
                let mut values = request.headers().get_all(name).iter();
                let value = values.next().filter(|_| values.next().is_none())?;
                Some(value.to_str().ok()?.into())
            }
            Self::Extension(extension) => (extension.read)(request.extensions()).map(Cow::Owned),
        }
    }
}
