use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::cases;
use crate::log::request::address;

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn addresses_are_those_that_the_standard_library_reads(
        numbers in prop::collection::vec(prop_oneof![
            8 => (0..300_u16).prop_map(|number| number.to_string()),
            1 => prop::sample::select(vec!["", "0", "00", "01", "1000", "a", "-1", "+1", " 1", "1:80"])
                .prop_map(str::to_owned),
        ], 3..6),
    ) {
        let text = numbers.join(".");
        let with_port = text.parse().ok().map(|socket: SocketAddr| socket.ip());
        let expected: Option<IpAddr> = text.parse().ok().or(with_port);
        prop_assert_eq!(address(text.as_bytes()), expected, "{}", text);
    }
}
