//! A script that would lose places of requests in flight is refused before it runs.

use super::{Member, Script, Scripted};

/// The script of an algorithm.
///
/// # Panics
///
/// Where places would be lost: see [`Script::in_flight`].
pub(crate) fn script_of<A: Scripted>() -> Script {
    let script = A::script();
    check(&script, A::IN_FLIGHT);
    script
}

fn check(script: &Script, is_in_flight: bool) {
    let mut in_flight = script.members().iter().filter(|member| member.in_flight);
    for member in in_flight.clone() {
        let needs = match member {
            _ if !member.is_settled() => "must hold its units: make it from `Settled<_>`",
            _ if !member.per_request => {
                "must hold one for each request: make it from `PerRequest<Settled<_>>`"
            }
            _ if !sets_capacity(member) => {
                "needs a part `--- capacity` that sets `m.capacity`: how many may be in flight"
            }
            _ => continue,
        };
        panic!(
            "the script of layout `{}` counts requests in flight, so it {needs}",
            member.layout
        );
    }
    let counts = in_flight.next().is_some();
    let layouts = || script.members().iter().map(|member| &*member.layout);
    assert!(
        counts == is_in_flight,
        "the script of layout `{}` counts {} in flight, and `Algorithm::IN_FLIGHT` is {is_in_flight}",
        layouts().collect::<Vec<_>>().join("+"),
        if counts { "requests" } else { "no requests" },
    );
}

fn sets_capacity(member: &Member) -> bool {
    let part = member.part("capacity");
    let mut after_each = part.split("m.capacity").skip(1).map(str::trim_start);
    after_each.any(|after| after.starts_with('=') && !after.starts_with("=="))
}

#[cfg(test)]
mod tests {
    use crate::algorithm::{FixedWindow, InFlight, MinInterval, PerRequest, Settled, TokenBucket};

    use super::*;

    const WITH_CAPACITY: &str = "--- judge\nm.fits = true\n--- capacity\nm.capacity = 2\n";

    /// What is wrong with it.
    fn wrong(script: &Script, is_in_flight: bool) -> String {
        let checked = std::panic::catch_unwind(|| check(script, is_in_flight));
        let panic = checked.expect_err("it is wrong");
        panic
            .downcast::<String>()
            .map_or_else(|other| panic!("no message: {other:?}"), |message| *message)
    }

    #[test]
    fn places_that_are_not_held_or_not_one_for_each_request_are_no_script_and_the_layout_is_named()
    {
        let holds_nothing = Script::new("seats", WITH_CAPACITY)
            .per_request()
            .in_flight();
        assert_eq!(
            wrong(&holds_nothing, true),
            "the script of layout `seats` counts requests in flight, so it must hold its units: \
             make it from `Settled<_>`"
        );
        let weighted = Settled::<FixedWindow>::script().in_flight();
        assert_eq!(
            wrong(&weighted, true),
            "the script of layout `window-held` counts requests in flight, so it must hold one for \
             each request: make it from `PerRequest<Settled<_>>`"
        );
    }

    #[test]
    fn places_without_a_capacity_are_no_script_and_the_layout_is_named() {
        assert_eq!(
            wrong(&InFlight::<TokenBucket>::script(), true),
            "the script of layout `debt-held` counts requests in flight, so it needs a part \
             `--- capacity` that sets `m.capacity`: how many may be in flight"
        );
        let only_read = "--- capacity\nm.capacity_parts = 2\nm.free = m.capacity == 2\n";
        let mut script = Settled::<FixedWindow>::script().per_request().in_flight();
        script = script.with(|member| member.source = only_read.into());
        assert!(wrong(&script, true).contains("needs a part `--- capacity`"));
    }

    #[test]
    fn an_algorithm_and_its_script_say_alike_whether_requests_are_in_flight() {
        let window = FixedWindow::script().and(MinInterval::script());
        assert_eq!(
            wrong(&window, true),
            "the script of layout `window+interval` counts no requests in flight, and \
             `Algorithm::IN_FLIGHT` is true"
        );
        assert_eq!(
            wrong(&<InFlight>::script(), false),
            "the script of layout `in-flight-held` counts requests in flight, and \
             `Algorithm::IN_FLIGHT` is false"
        );
    }

    #[test]
    #[should_panic(expected = "layout `debt-held` counts requests in flight")]
    fn each_member_of_a_tuple_is_checked_by_itself() {
        <(InFlight, InFlight<TokenBucket>)>::script();
    }

    #[test]
    fn what_is_right_is_a_script() {
        fn is_right<A: Scripted>() {
            assert_eq!(script_of::<A>(), A::script());
        }
        is_right::<FixedWindow>();
        is_right::<InFlight>();
        is_right::<(InFlight, Settled<TokenBucket>)>();
        is_right::<PerRequest<(TokenBucket, InFlight)>>();
    }
}
