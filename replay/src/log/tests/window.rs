use std::time::Duration;

use proptest::prelude::*;

use super::cases;
use crate::{
    log::{Format, Options, Reader},
    logged::Logged,
};

/// A log of requests that end then and take so long, in milliseconds; each has its index.
fn log(requests: &[(u64, u64)]) -> String {
    let line = |(index, (end, took)): (usize, &(u64, u64))| {
        let (end, took) = (1_762_938_841_000 + end, *took as f64 / 1e3);
        format!("{{\"ts\":{end},\"method\":\"GET\",\"path\":\"/{index}\",\"duration\":{took}}}\n")
    };
    requests.iter().enumerate().map(line).collect()
}

fn sorted(requests: &[(u64, u64)], options: &Options) -> (Vec<Logged>, u64) {
    let log = log(requests);
    let mut reader = Reader::new(log.as_bytes(), Some(Format::Json), options.clone()).unwrap();
    let requests = reader.by_ref().map(|logged| *logged.unwrap()).collect();
    assert_eq!(reader.unreadable().count(), 0);
    (requests, reader.out_of_order())
}

fn paths(requests: &[Logged]) -> Vec<&str> {
    requests.iter().map(|logged| logged.uri.path()).collect()
}

fn seconds(window: u64) -> Options {
    Options {
        window: Duration::from_secs(window),
        ..Options::default()
    }
}

#[test]
fn a_request_that_comes_too_late_is_taken_at_the_latest_instant_given_out() {
    // The last one began a minute before the first, which the one after that has driven out.
    let log = [(60_000, 0), (61_000, 0), (61_500, 0), (61_500, 61_500)];
    let (requests, late) = sorted(&log, &seconds(1));
    assert_eq!(paths(&requests), ["/0", "/3", "/1", "/2"]);
    assert_eq!(requests[1].started_micros, requests[0].started_micros);
    assert_eq!(requests[1].took_micros, Some(61_500_000));
    assert_eq!(late, 1);
}

#[test]
fn no_more_requests_and_no_more_bytes_are_held_than_allowed() {
    let requests = Options {
        max_held: 2,
        ..Options::default()
    };
    let bytes = Options {
        max_held_bytes: log(&[(10, 0)]).len() * 2,
        ..Options::default()
    };
    for options in [requests, bytes] {
        let (requests, late) = sorted(&[(10, 0), (20, 0), (30, 0), (31, 30)], &options);
        assert_eq!(paths(&requests), ["/0", "/3", "/1", "/2"]);
        assert_eq!(late, 1);
    }
}

/// Requests that end in turn, a millisecond apart, each second one after half a second.
fn in_disorder(from: u64, lines: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..lines).map(move |line| (from + line, line % 2 * 500))
}

/// Reads a log in which these lines are dated wrongly: all others must come in the order of their
/// start, as they do without them.
#[track_caller]
fn are_not_moved_by(
    wrong: &[usize],
    requests: &[(u64, u64)],
) -> (Vec<Logged>, Reader<&'static [u8]>) {
    let log: &'static str = log(requests).leak();
    let mut reader = Reader::new(log.as_bytes(), Some(Format::Json), seconds(60)).unwrap();
    let given: Vec<_> = reader.by_ref().map(|logged| *logged.unwrap()).collect();
    assert_eq!(given.len(), requests.len());
    let is_right = |index: &usize| !wrong.contains(index);
    let mut wanted: Vec<_> = (0..requests.len()).filter(is_right).collect();
    wanted.sort_by_key(|index| requests[*index].0 - requests[*index].1);
    let indices = paths(&given)
        .into_iter()
        .map(|path| path[1..].parse().unwrap());
    let indices: Vec<usize> = indices.filter(is_right).collect();
    assert_eq!(indices, wanted);
    (given, reader)
}

const FAR: u64 = 7_000_000_000_000;

#[test]
fn a_time_in_the_far_future_moves_no_other_request_wherever_it_stands() {
    for place in [0, 1, 500, 998, 999] {
        let mut requests: Vec<_> = in_disorder(10_000, 1_000).collect();
        requests[place].0 = FAR;
        let (given, reader) = are_not_moved_by(&[place], &requests);
        // It is taken at the time of the others. Nobody knows of the first line that it is wrong,
        // nor of the last: they come last, at their own time.
        let is_known = ![0, 999].contains(&place);
        let others = requests[(place + 1) % 1_000].0 + 1_762_938_841_000;
        let path = format!("/{place}");
        let at = given.iter().position(|it| it.uri.path() == path).unwrap();
        let request = &given[at];
        let is_near = request.started_micros.abs_diff(others * 1_000) < 1_000_000;
        assert_eq!(is_near, is_known, "{place}");
        assert_eq!(at == 999, !is_known || place == 998, "{place} {at}");
        let counted = (reader.out_of_order(), reader.ahead());
        assert_eq!(counted, (0, is_known.into()), "{place}");
    }
}

#[test]
fn one_of_several_hosts_whose_clock_is_an_hour_ahead_is_taken_at_the_time_of_the_others() {
    let right: Vec<_> = in_disorder(10_000, 2_000).collect();
    let mut requests = right.clone();
    let wrong: Vec<_> = (3..2_000).step_by(3).collect();
    for index in &wrong {
        requests[*index].0 += 3_600_000;
    }
    let (given, reader) = are_not_moved_by(&wrong, &requests);
    let counted = (reader.out_of_order(), reader.ahead());
    assert_eq!(counted, (0, wrong.len() as u64));
    for request in given {
        let index: usize = request.uri.path()[1..].parse().unwrap();
        let (ended, took) = right[index];
        let started = (1_762_938_841_000 + ended - took) * 1_000;
        // As the line before it, or the one after it.
        assert!(request.started_micros.abs_diff(started) <= 1_000, "{index}");
    }
}

#[test]
fn after_a_night_without_requests_they_come_in_order_and_the_evening_is_not_held() {
    const NIGHT: u64 = 8 * 3_600_000;

    let mut requests: Vec<_> = in_disorder(10_000, 1_000).collect();
    requests.extend(in_disorder(NIGHT, 1_000));
    let (_, reader) = are_not_moved_by(&[], &requests);
    assert_eq!((reader.out_of_order(), reader.ahead()), (0, 0));

    // Each hour one request: no more are held than it takes to believe that.
    let rare = (0..1_000).map(|hour| (hour * 3_600_000, 0));
    let log = log(&rare.collect::<Vec<_>>());
    let mut reader = Reader::new(log.as_bytes(), Some(Format::Json), seconds(60)).unwrap();
    let mut most_held = 0;
    for given in 1..=1_000 {
        assert!(reader.next().is_some());
        most_held = most_held.max(reader.read_lines() - given);
    }
    assert!((32..=200).contains(&most_held), "{most_held}");
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_order_is_that_of_a_stable_sort_within_the_window(
        gaps in prop::collection::vec((0..40_u64, 0..2000_u64), 1..300),
    ) {
        // Each line is written when its request ends.
        let mut end = 10_000;
        let requests: Vec<_> = gaps.iter().map(|(gap, took)| {
            end += gap;
            (end, *took)
        }).collect();
        let (given, late) = sorted(&requests, &seconds(2));
        prop_assert_eq!(late, 0);
        let mut wanted: Vec<_> = requests.iter().enumerate().collect();
        wanted.sort_by_key(|(_, (end, took))| end - took);
        let wanted: Vec<_> = wanted.iter().map(|(index, _)| format!("/{index}")).collect();
        prop_assert_eq!(paths(&given), wanted);
    }

    #[test]
    fn the_output_never_goes_back_and_loses_no_request(
        requests in prop::collection::vec((10_000..20_000_u64, 0..5000_u64), 1..200),
        max_held in 0..50_usize,
        window in 0..5_u64,
    ) {
        let options = Options { max_held, ..seconds(window) };
        let log = log(&requests);
        let mut reader = Reader::new(log.as_bytes(), Some(Format::Json), options).unwrap();
        let given: Vec<_> = reader.by_ref().map(|logged| *logged.unwrap()).collect();
        let (late, ahead) = (reader.out_of_order(), reader.ahead());
        prop_assert!(given.is_sorted_by_key(|logged| logged.started_micros));
        let mut indices: Vec<usize> = paths(&given).iter().map(|path| path[1..].parse().unwrap()).collect();
        let moved = given.iter().zip(&indices).filter(|(logged, index)| {
            let (end, took) = requests[**index];
            let started = (1_762_938_841_000 + end - took) * 1000;
            logged.started_micros != started
        });
        let moved = moved.count() as u64;
        // One that is dated ahead may be taken at the very instant that it says.
        prop_assert!(moved <= late + ahead && moved >= late, "{} {} {}", moved, late, ahead);
        indices.sort_unstable();
        prop_assert!(indices.into_iter().eq(0..requests.len()));
    }
}
