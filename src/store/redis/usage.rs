//! The numbers that a monitor looks at: how a store's decisions ended, and how its connections are.

use std::{sync::MutexGuard, time::Instant};

use crate::{
    error::{StoreError, StoreErrorKind},
    store::Verdict,
};

use super::{Shared, lock};

/// What a [`RedisStore`](super::RedisStore) has decided so far, and how its connections are; see
/// [`usage`](super::RedisStore::usage).
///
/// A decision is a `check` or `check_cost`, or a request through a layer. One whose caller went
/// away before the answer is counted only if it holds units or a place in flight. Of those that
/// have admitted or refused, Redis was asked about the ones that were neither
/// [`remembered`](Self::remembered) nor [`leased`](Self::leased).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisUsage {
    /// How many decisions have admitted.
    pub admitted: u64,
    /// How many decisions have refused a request.
    pub refused: u64,
    /// How many decisions failed as [`Unavailable`](StoreErrorKind::Unavailable): there was no
    /// answer in time.
    pub unavailable: u64,
    /// How many decisions failed as [`Misconfigured`](StoreErrorKind::Misconfigured).
    pub misconfigured: u64,
    /// How many decisions failed as [`InvalidInput`](StoreErrorKind::InvalidInput): their key has
    /// a value that no store wrote.
    pub invalid: u64,
    /// How many decisions have shared a call with others, as they asked about the same keys at the
    /// same time.
    pub joined: u64,
    /// How many decisions were refused by a refusal that was
    /// [remembered](super::RedisStoreBuilder::remember_refusals); `refused` counts them, too.
    pub remembered: u64,
    /// How many decisions were admitted by units that this process [has
    /// leased](super::RedisStore::leased); `admitted` counts them, too.
    pub leased: u64,
    /// How many units this process has leased.
    pub units_leased: u64,
    /// How many of them it holds right now and has not spent; not those on their way back.
    pub units_held: u64,
    /// How many leased units this process has given back unspent.
    pub units_given_back: u64,
    /// How many units the calls that failed asked for or gave back. Of these, what Redis holds is
    /// kept from all until it ends: see [`leased`](super::RedisStore::leased).
    pub units_lost: u64,
    /// How many commands wait for Redis's answer right now; not those that have timed out.
    pub in_flight: usize,
    /// How often a lost or hung connection was replaced, to any server.
    pub reconnects: u64,
    /// When Redis last answered anything, if it ever did.
    pub last_answer: Option<Instant>,
}

impl RedisUsage {
    /// Counts how a decision ended.
    pub(super) fn count<S>(&mut self, decided: &Result<Verdict<S>, StoreError>) {
        let counter = match decided {
            Ok(verdict) if verdict.admitted => &mut self.admitted,
            Ok(_) => &mut self.refused,
            Err(error) => match error.kind() {
                StoreErrorKind::Unavailable => &mut self.unavailable,
                StoreErrorKind::Misconfigured => &mut self.misconfigured,
                StoreErrorKind::InvalidInput => &mut self.invalid,
            },
        };
        *counter += 1;
    }
}

impl Shared {
    pub(super) fn usage(&self) -> MutexGuard<'_, RedisUsage> {
        lock(&self.servers.settings.usage)
    }
}
