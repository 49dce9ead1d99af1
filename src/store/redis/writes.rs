//! Writes without a decision: settlements, and turns in a queue that are given back.

use std::sync::Arc;

use bytes::Bytes;

use crate::{algorithm::Scripted, store::Written};

use super::{
    ARGUMENTS_LEN, Later, Shared,
    arguments::{bytes_of, push, push_numbers, push_settlement},
    failure,
    in_flight::numbers_of,
    scripts::{ScriptCache, Scripts},
};

impl Shared {
    /// Sends a settlement at once, once, and whether or not somebody waits for the returned future;
    /// `None` if nothing is held that could be charged.
    pub(super) fn settle<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: Vec<Bytes>,
        admission: &A::Snapshot,
        held_and_spent: (u32, u32),
    ) -> Option<Later<Written>> {
        let scripts = self.script_cache.scripts::<A>();
        scripts.settle.as_ref().filter(|_| A::SETTLES)?;
        let mut parameters = Vec::with_capacity(ARGUMENTS_LEN);
        algorithm.parameters(&mut |parameter| push(&mut parameters, parameter as f64));
        // Places are given back when the request has ended.
        let known = bytes_of(&numbers_of(algorithm, &scripts.members, admission, false));
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        push_settlement(
            &mut numbers,
            held_and_spent,
            self.now(),
            &parameters,
            &known,
        );
        Some(self.send_settlement(ScriptCache::<Scripts>::scripts::<A>, keys, numbers))
    }

    pub(super) fn send_settlement(
        self: &Arc<Self>,
        scripts: fn(&ScriptCache<Scripts>) -> &Scripts,
        keys: Vec<Bytes>,
        numbers: Vec<u8>,
    ) -> Later<Written> {
        let no_runtime = || failure::unavailable("there is no runtime to settle on");
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Box::pin(async move { Err(no_runtime()) });
        };
        let shared = Arc::clone(self);
        let settling = runtime.spawn(async move {
            let script = scripts(&shared.script_cache).settle.as_ref();
            let (script, key) = (script.expect("something is held"), keys[0].clone());
            let settled = shared.run_late(script, keys, numbers.into()).await;
            shared.health.record(&settled, [&key]);
            settled.map(drop)
        });
        Box::pin(async move {
            let settled = settling.await;
            settled.unwrap_or_else(|_| Err(failure::unavailable("the runtime shuts down")))
        })
    }

    /// Frees what is held for a request that was dropped before its turn, and gives back its turn
    /// in a queue, without waiting for the answers. If that fails, the turn stays charged, and what
    /// is held counts as spent when its time is over.
    pub(super) fn withdraw<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: Vec<Bytes>,
        admission: &A::Snapshot,
        cost: u32,
    ) {
        drop(self.settle(algorithm, keys.clone(), admission, (cost, 0)));
        let runtime = tokio::runtime::Handle::try_current();
        let (Some(_), Ok(runtime)) = (&self.script_cache.scripts::<A>().withdraw, runtime) else {
            return;
        };
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        push_numbers(&mut numbers, cost, self.now(), |numbers| {
            algorithm.parameters(&mut |parameter| push(numbers, parameter as f64));
            algorithm.admission(admission, &mut |number| push(numbers, number as f64));
        });
        let shared = Arc::clone(self);
        runtime.spawn(async move {
            let script = shared.script_cache.scripts::<A>().withdraw.as_ref();
            let script = script.expect("it was there");
            // If it fails, the turn stays charged, and nobody is released too early.
            let _ = shared.run(script, keys, numbers.into()).await;
        });
    }
}
