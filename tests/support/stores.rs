//! The list of the stores in this process: a test that reads it holds for each of them.

use tollgate::store::{EitherStore, LocalBuckets, LocalStore};

use crate::support::Remote;

/// Runs the body over each store, made from a new one in memory.
macro_rules! over_every_store {
    ($in_memory:expr, |$store:ident| $body:expr) => {
        $crate::stores::over_each! {
            |$store| $body;
            $in_memory;
            $crate::support::Remote($in_memory);
            $crate::stores::either_in_memory($in_memory);
            $crate::stores::either_remote($in_memory);
        }
    };
}

macro_rules! over_each {
    (|$store:ident| $body:expr; $($made:expr;)+) => {
        $({
            let $store = $made;
            $body;
        })+
    };
}

pub(crate) use {over_each, over_every_store};

type Either<L, K, C> = EitherStore<LocalStore<L, K, C>, Remote<LocalStore<L, K, C>>>;

pub(crate) fn either_in_memory<L: LocalBuckets<K>, K, C>(
    store: LocalStore<L, K, C>,
) -> Either<L, K, C> {
    EitherStore::Left(store)
}

pub(crate) fn either_remote<L: LocalBuckets<K>, K, C>(
    store: LocalStore<L, K, C>,
) -> Either<L, K, C> {
    EitherStore::Right(Remote(store))
}
