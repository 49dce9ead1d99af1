//! Names, ids and spans.

use super::*;

#[test]
fn a_name_that_no_header_field_could_carry_is_refused_by_value() {
    let too_long = "n".repeat(65);
    for name in ["", "a b", "a\"b", "{a}", "naïve", "a\nb", "a:b", &too_long] {
        let error = Policy::new("x", &[1], Duration::from_secs(1))
            .named(name)
            .unwrap_err();
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
}

#[test]
fn a_name_of_one_to_64_characters_is_kept_and_makes_other_buckets_and_numbers() {
    let unnamed = Policy::new("x", &[1], Duration::from_secs(1));
    for name in ["n", "aZ09_.-", &"n".repeat(64)] {
        let named = unnamed.clone().named(name).unwrap();
        assert_eq!(named.name(), name);
        assert_ne!(named.id(), unnamed.id());
        let others = Policy::new("x", &[2], Duration::from_secs(1));
        let others = others.named(name).unwrap();
        assert_eq!(others.id(), named.id());
        let other_shape = Policy::new("y", &[1], Duration::from_secs(1));
        assert_ne!(other_shape.named(name).unwrap().id(), named.id());
    }
}

#[test]
fn a_policy_takes_over_a_name_but_not_what_others_are_called_without_one() {
    let policy = |n| Policy::new("x", &[n], Duration::from_secs(1));
    let named = policy(1).named("daily").unwrap();
    let taken_over = policy(2).like(&named);
    assert_eq!((taken_over.name(), taken_over.id()), ("daily", named.id()));
    let kept = policy(2).like(&policy(1));
    assert_eq!((kept.name(), kept.id()), ("x-2-1s", policy(2).id()));
}

#[test]
fn what_counts_requests_is_another_policy_or_other_numbers_of_the_same_name() {
    let unnamed = Policy::new("x", &[1], Duration::from_secs(1));
    let requests = unnamed.clone().per_request();
    assert_eq!(requests.name(), "x-1-1s-per-request");
    assert_ne!(requests.id(), unnamed.id());
    assert_eq!(
        (requests.limit(), requests.window()),
        (1, Duration::from_secs(1))
    );

    let named = unnamed.named("rpm").unwrap();
    let requests = named.clone().per_request();
    assert_eq!((requests.name(), requests.id()), ("rpm", named.id()));
    let named_later = Policy::new("x", &[1], Duration::from_secs(1)).per_request();
    assert_eq!(named_later.named("rpm").unwrap(), requests);
}

#[test]
fn a_window_is_as_long_as_it_was_given_in_whole_microseconds() {
    for window in [0, 1, 1_500_000].map(Duration::from_micros) {
        assert_eq!(Policy::new("x", &[1], window).window(), window);
    }
    let longest = Policy::new("x", &[1], Duration::MAX);
    assert_eq!(longest.window(), Duration::from_micros(u64::MAX));
}

#[test]
fn a_name_makes_the_same_id_in_every_build() {
    assert_eq!(PolicyId::of(0, "daily").as_u64(), 0x13d8_1f56_9eb8_3c1d);
    assert_eq!(PolicyId::of(1, "daily").as_u64(), 0xf93f_3805_6667_d003);
}

#[test]
fn whatever_an_algorithm_is_called_its_policy_has_a_name_that_can_be_sent() {
    let policy = Policy::new("a\nb\"ü", &[1], Duration::from_secs(1));
    assert_eq!(policy.name(), "a_b__-1-1s");
}

#[test]
fn the_order_of_the_members_makes_a_different_policy() {
    let [a, b] = [1, 2].map(|n| Policy::new("x", &[n], Duration::from_secs(1)).id());
    assert_ne!(a.and(b), b.and(a));
    assert_ne!(a.and(b), a);
    assert_ne!(a.and(a), a);
}

#[test]
fn a_span_is_printed_in_its_largest_whole_unit() {
    let spans = [
        0,
        1,
        1_500,
        2_000,
        90_000_000,
        3_600_000_000,
        172_800_000_000,
    ];
    let told = spans.map(|micros| Span(micros).to_string());
    assert_eq!(told, ["0us", "1us", "1500us", "2ms", "90s", "1h", "2d"]);
}
