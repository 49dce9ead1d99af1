//! The keys that are refused most.

use std::{
    collections::{BTreeSet, HashMap},
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::key::Key;

use super::{Event, Observe, Outcome};

/// Counts refused requests by key, and says which keys are refused most: who floods a service, or
/// whose limit is too small.
///
/// It counts in this process, since it was made, and for as many keys as it is given, whatever
/// callers send. Its clones share the counts. Keys are hashed, compared and cloned under its lock.
///
/// # How exact the counts are
///
/// They are exact until there are more keys. A new key then takes the place of the one that was
/// refused least, and goes on from its count. So a count is never too low, and too high by at most
/// all refusals divided by the number of keys; and every key with more refusals than that is among
/// those that are counted. This is Space-Saving (Metwally, Agrawal and El Abbadi 2005, *Efficient
/// computation of frequent and top-k elements in data streams*).
///
/// # Example: who is refused most
///
/// ```
/// use tollgate::observe::MostRefused;
/// use tollgate::{Quota, RateLimiter, algorithm::FixedWindow, store::LocalStore};
///
/// let most_refused = MostRefused::new(1_000);
/// let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(2)), LocalStore::new())
///     .observe(most_refused.clone());
/// for caller in ["ann", "bob", "bob", "bob", "bob", "eve", "eve", "eve"] {
///     limiter.check(caller).now();
/// }
/// assert_eq!(most_refused.first(1), [("bob".to_owned(), 2)]);
/// ```
pub struct MostRefused<K>(Arc<Mutex<Counts<K>>>);

struct Counts<K> {
    max_keys: usize,
    /// Each key with its refusals.
    keys: Vec<(K, u64)>,
    /// Where a key stands in `keys`.
    places: HashMap<K, usize>,
    /// The refusals at each place, in order.
    in_order: BTreeSet<(u64, usize)>,
}

impl<K: Key> MostRefused<K> {
    /// Counts for at most so many keys.
    ///
    /// # Panics
    ///
    /// If that is none.
    #[track_caller]
    pub fn new(max_keys: usize) -> Self {
        assert!(max_keys > 0, "it counts for 0 keys");
        Self(Arc::new(Mutex::new(Counts {
            max_keys,
            keys: Vec::new(),
            places: HashMap::new(),
            in_order: BTreeSet::new(),
        })))
    }

    /// The keys that were refused most, at most so many, with their refusals: the most first.
    pub fn first(&self, keys: usize) -> Vec<(K, u64)> {
        let counts = self.lock();
        let most = counts.in_order.iter().rev().take(keys);
        most.map(|&(_, place)| counts.keys[place].clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Counts<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key> Counts<K> {
    /// Counts a refusal; returns the key that is not counted any more, as it stood in both places.
    fn count(&mut self, key: &K) -> [Option<K>; 2] {
        let (known, mut replaced) = (self.places.get(key).copied(), [None, None]);
        let place = match (known, self.in_order.first()) {
            (Some(place), _) => place,
            (None, Some(&(_, least))) if self.keys.len() >= self.max_keys => {
                let key = mem::replace(&mut self.keys[least].0, key.clone());
                let entry = self.places.remove_entry(&key);
                replaced = [Some(key), entry.map(|(key, _)| key)];
                least
            }
            _ => {
                self.keys.push((key.clone(), 0));
                self.keys.len() - 1
            }
        };
        if known.is_none() {
            self.places.insert(key.clone(), place);
        }
        let refusals = &mut self.keys[place].1;
        self.in_order.remove(&(*refusals, place));
        *refusals += 1;
        self.in_order.insert((*refusals, place));
        replaced
    }
}

impl<K: Key> Observe<K> for MostRefused<K> {
    fn observe(&self, event: &Event<'_, K>) {
        if let (Outcome::Refused, Some(key)) = (event.outcome(), event.key()) {
            let replaced = self.lock().count(key);
            // A key's own `Drop` may do anything: by now no lock is held.
            drop(replaced);
        }
    }
}

impl<K> Clone for MostRefused<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for MostRefused<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MostRefused").finish_non_exhaustive()
    }
}
