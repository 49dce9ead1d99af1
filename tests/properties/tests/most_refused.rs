//! Who is refused most: counted in bounded memory, and beside a count of all.

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate::{
    Quota, RateLimiter, algorithm::FixedWindow, observe::MostRefused, store::LocalStore,
};
use tollgate_properties::for_all;

#[test]
#[should_panic(expected = "it counts for 0 keys")]
fn it_counts_for_a_key_at_least() {
    MostRefused::<u8>::new(0);
}

#[test]
fn no_count_is_too_low_or_too_high_by_more_than_its_share_and_nobody_above_it_is_missing() {
    let keys = prop_oneof![3 => 0..4_u8, 2 => 0..30_u8];
    let refused = (1..=8_usize, prop::collection::vec(keys, 0..200));
    for_all(&refused, |(max_keys, refused)| {
        let most_refused = MostRefused::new(max_keys);
        let none = FixedWindow::new(Quota::per_day(0));
        let limiter = RateLimiter::new(none, LocalStore::new()).observe(most_refused.clone());
        let mut all = HashMap::new();
        for key in &refused {
            limiter.check(key).now();
            *all.entry(*key).or_insert(0_u64) += 1;
        }
        let counted = most_refused.first(usize::MAX);
        prop_assert!(counted.is_sorted_by_key(|(_, count)| std::cmp::Reverse(*count)));
        prop_assert_eq!(counted.len(), all.len().min(max_keys));
        prop_assert_eq!(most_refused.first(2), &counted[..counted.len().min(2)]);
        let share = (refused.len() / max_keys) as u64;
        let most = if all.len() > max_keys { share } else { 0 };
        for (key, count) in &counted {
            let is_true = (all[key]..=all[key] + most).contains(count);
            prop_assert!(is_true, "{key}: {count}");
        }
        for (key, count) in all.iter().filter(|(_, count)| **count > share) {
            let is_there = counted.iter().any(|(counted, _)| counted == key);
            prop_assert!(is_there, "{key}: {count}");
        }
        Ok(())
    });
}
