//! The state of one key of several that are decided about together: it is handed out under its
//! lock.

use crate::{algorithm::Algorithm, clock::Timestamp, key::Key, store::AsKey};

use super::{Gone, Table, is};

impl<K: Key, S> Table<K, S> {
    /// Calls the closure with the state of a key, under its lock, or with none if there is no key;
    /// the closure says whether it was charged. Once no lock is held any more,
    /// [`after_a_decision`](Self::after_a_decision) is to be called with the flag that is
    /// returned, and what is `gone`, or left of the key, dropped.
    ///
    /// A key without an entry gets one then, if there is room; if there is none, the state is the
    /// overflow bucket's. What may panic, the key's own code, runs before the closure, which
    /// charges other keys too.
    pub(in crate::store::local) fn with_state<A: Algorithm<State = S>, T>(
        &self,
        algorithm: &A,
        asked: &mut Option<K>,
        gone: &mut Gone<K, S>,
        (cost, now): (u32, Timestamp),
        then: impl FnOnce(Option<&mut S>) -> (bool, T),
    ) -> (T, bool) {
        let Some(key) = asked else {
            return (then(None).1, false);
        };
        let then = |state: &mut S| then(Some(state));
        let hash = self.hash(key);
        let mut shard = self.lock(hash);
        if let Some((_, state)) = shard.entries.find_mut(hash, is(key)) {
            let (_, done) = then(state);
            return (done, shard.slice_is_due());
        }
        let stays = (cost, now);
        let then = match self.overflow.if_it_stays(algorithm, stays, gone, then) {
            Ok((_, done)) => return (done, false),
            Err(then) => then,
        };
        if cost == 0 {
            let (_, done) = then(&mut self.overflow.fresh(algorithm));
            return (done, false);
        }
        let Some(place) = self.place_for_a_new_key(&mut shard, (algorithm, now), gone) else {
            return (self.overflow.with_state(algorithm, then), false);
        };
        shard.make_room(|key| self.hash(key));
        let mut state = self.overflow.start(algorithm, now, gone);
        let (is_charged, done) = then(&mut state);
        match asked.take_if(|_| is_charged) {
            Some(key) => {
                let hash_of = |(key, _): &(K, S)| self.hash(key);
                shard.entries.insert_unique(hash, (key, state), hash_of);
                place.keep();
            }
            None => gone.state(state),
        }
        (done, false)
    }

    /// Calls the closure with what a key is judged by, under its lock: its state, or what a key
    /// without an entry would begin with.
    pub(in crate::store::local) fn with_state_as_it_is<A, Q, T>(
        &self,
        (algorithm, now): (&A, Timestamp),
        key: &Q,
        gone: &mut Gone<K, S>,
        then: impl FnOnce(&S) -> T,
    ) -> T
    where
        A: Algorithm<State = S>,
        Q: AsKey<K> + ?Sized,
    {
        let hash = self.hash(key);
        match self.lock(hash).entries.find(hash, is(key)) {
            Some((_, state)) => then(state),
            None => self.overflow.look((algorithm, now), gone, then),
        }
    }

    /// What a decision leaves to be done without a lock: some idle keys leave if it is their turn,
    /// and the operator is told if new keys share a bucket.
    pub(in crate::store::local) fn after_a_decision<A: Algorithm<State = S>>(
        &self,
        algorithm: &A,
        now: Timestamp,
        slice_is_due: bool,
    ) {
        if slice_is_due {
            self.forget_idle_in_turn(algorithm, now);
        }
        if self.overflow.decisions() > 0 {
            self.overflow.warn_once();
        }
    }
}
