//! What is written without a decision: settlements, and places in a queue that are given back.

use std::sync::Arc;

use bytes::Bytes;

use crate::{algorithm::Scripted, store::Written};

use super::{
    ARGUMENTS_LEN, Later, Shared,
    arguments::{push, push_numbers, push_settlement},
    failure,
};

impl Shared {
    /// Sends it at once, once, and whether or not somebody waits for the returned future; none if
    /// nothing is held.
    pub(super) fn settle<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: Vec<Bytes>,
        admission: &A::Snapshot,
        held_and_spent: (u32, u32),
    ) -> Option<Later<Written>> {
        self.script_cache.scripts::<A>().settle.as_ref()?;
        let (mut parameters, mut known) = (Vec::with_capacity(ARGUMENTS_LEN), Vec::new());
        algorithm.parameters(&mut |parameter| push(&mut parameters, parameter as f64));
        algorithm.admission(admission, &mut |number| push(&mut known, number as f64));
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        push_settlement(
            &mut numbers,
            held_and_spent,
            self.now(),
            &parameters,
            &known,
        );
        let no_runtime = || failure::unavailable("there is no runtime to settle on");
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Some(Box::pin(async move { Err(no_runtime()) }));
        };
        let shared = Arc::clone(self);
        let settling = runtime.spawn(async move {
            let script = shared.script_cache.scripts::<A>().settle.as_ref();
            let (script, key) = (script.expect("it was there"), keys[0].clone());
            let settled = shared.run_late(script, keys, numbers.into()).await;
            shared.health.record(&settled, [&key]);
            settled.map(drop)
        });
        Some(Box::pin(async move {
            let settled = settling.await;
            settled.unwrap_or_else(|_| Err(failure::unavailable("the runtime shuts down")))
        }))
    }

    /// Sends the script without waiting for the answer. If that fails, the place in the queue stays
    /// charged.
    pub(super) fn withdraw<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: Vec<Bytes>,
        admission: &A::Snapshot,
        cost: u32,
    ) {
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
            // If it fails, the place in the queue stays charged, and nobody is released too early.
            let _ = shared.run(script, keys, numbers.into()).await;
        });
    }
}
