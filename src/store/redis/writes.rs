//! Writes without a decision: settlements, and turns in a queue that are given back.

use std::sync::Arc;

use bytes::Bytes;

use crate::{algorithm::Scripted, store::Written};

use super::{
    ARGUMENTS_LEN, Later, Shared,
    arguments::{
        Arguments, Place, Settlement, Units, push_call, push_members, settled as settled_numbers,
        told,
    },
    failure,
    script::Op,
    scripts::{Loadable, ScriptCache, Scripts},
};

impl Shared {
    /// Sends a settlement at once, once, and whether or not somebody waits for the returned future;
    /// `None` if nothing is held that could be charged.
    pub(super) fn settle<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: Vec<Bytes>,
        admission: &A::Snapshot,
        (held, spent): (u32, u32),
    ) -> Option<Later<Written>> {
        A::SETTLES.then(|| self.send_settlement(algorithm, keys, admission, (held, spent, false)))
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
        let scripts = self.script_cache.scripts::<A>();
        if A::SETTLES || scripts.has(|member| member.withdraws) {
            drop(self.send_settlement(algorithm, keys, admission, (cost, 0, true)));
        }
    }

    fn send_settlement<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: Vec<Bytes>,
        admission: &A::Snapshot,
        (held, spent, is_withdrawn): (u32, u32, bool),
    ) -> Later<Written> {
        let script = &self.script_cache.scripts::<A>().script;
        let mut known = Vec::new();
        algorithm.admission(admission, &mut |number| known.push(number as f64));
        let settlement = Settlement {
            admission: &known,
            held,
            spent,
            is_withdrawn,
        };
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        push_call(&mut numbers, Op::Settle, self.now());
        let units = (Units::Settled(settlement), Place::LOOK);
        push_members(&mut numbers, script, &told(algorithm), units);
        let arguments = Arguments::from(numbers).and(settled_numbers(script, settlement));
        self.send_late(ScriptCache::<Scripts>::scripts::<A>, keys, arguments)
    }

    /// Sends a change that nobody has to wait for at once, and once.
    pub(super) fn send_late(
        self: &Arc<Self>,
        scripts: fn(&ScriptCache<Scripts>) -> &Scripts,
        keys: Vec<Bytes>,
        arguments: Arguments,
    ) -> Later<Written> {
        let no_runtime = || failure::unavailable("there is no runtime to settle on");
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Box::pin(async move { Err(no_runtime()) });
        };
        let shared = Arc::clone(self);
        let sending = runtime.spawn(async move {
            let script: &Loadable = &scripts(&shared.script_cache).loadable;
            let key = keys[0].clone();
            let written = shared.run_late(script, keys, arguments).await;
            shared.health.record(&written, [&key]);
            written.map(drop)
        });
        Box::pin(async move {
            let written = sending.await;
            written.unwrap_or_else(|_| Err(failure::unavailable("the runtime shuts down")))
        })
    }
}
