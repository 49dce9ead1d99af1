//! What holds for every algorithm, and for one that has only the required methods.

use super::*;

/// By hand, and not by the list of all algorithms: the bytes of each state are the claim.
#[test]
fn memory_per_key_is_what_the_table_says() {
    fn bytes<A: KeyLimit>() -> usize {
        size_of::<A::State>()
    }
    assert_eq!(
        [
            bytes::<TokenBucket>(),
            bytes::<Gcra>(),
            bytes::<LeakyBucket>(),
        ],
        [24; 3]
    );
    assert_eq!(bytes::<FixedWindow>(), 16);
    let waits = [bytes::<LeakyBucketQueue>(), bytes::<WaitAtMost<Gcra>>()];
    assert_eq!(waits, [24; 2]);
    assert_eq!(bytes::<InFlight>(), 32);
    assert_eq!([bytes::<SlidingLog>(), bytes::<SlidingBuckets>()], [56; 2]);
    assert_eq!(admissions::BYTES_PER_ENTRY, 16);
    assert_eq!(bytes::<SlidingWindow>(), 24);
    assert_eq!(bytes::<MinInterval>(), 8);
    assert_eq!(bytes::<(TokenBucket, FixedWindow)>(), 40);
    assert_eq!(bytes::<Shadow<TokenBucket>>(), bytes::<TokenBucket>());
}
