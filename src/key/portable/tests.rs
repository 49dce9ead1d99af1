use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use bytes::Bytes;
use http::{Method, Request};

use super::*;
use crate::key::{Header, HeaderKey, KeyExtractor};

/// The bytes of a key, which are text.
pub(super) fn written(key: impl PortableKey) -> String {
    let mut parts = KeyParts::new();
    key.write_to(&mut parts);
    String::from_utf8(parts.into_bytes()).unwrap()
}

fn shared() -> HeaderKey {
    let anonymous = Header::new("x-api-key").or_shared();
    anonymous.extract(&Request::new(())).unwrap().unwrap()
}

fn header(value: &[u8]) -> String {
    written(HeaderKey::from(value))
}

/// Each character that is written as it is.
const PLAIN: &str = "Bob@example.com,a=b+c~/x:y_z-.";

#[test]
fn each_type_writes_these_bytes_and_no_others() {
    let v4 = Ipv4Addr::new(192, 0, 2, 1);
    let v6: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let runs: Ipv6Addr = "1:0:0:2:0:0:0:3".parse().unwrap();
    for (found, pinned) in [
        (written("bob"), "s:bob;"),
        (written(Box::<str>::from("bob")), "s:bob;"),
        (written(Arc::<str>::from("bob")), "s:bob;"),
        (written(Cow::Borrowed("bob")), "s:bob;"),
        (written(Cow::<str>::Owned("bob".to_owned())), "s:bob;"),
        (written((&"bob", &1_u8)), "s:bob;u:1;"),
        (written(""), "s:;"),
        (written(PLAIN), &*format!("s:{PLAIN};")),
        (written('é'), "s:%C3%A9;"),
        (written(Method::GET), "s:GET;"),
        (written([0, 0xFF, b'a']), "b:%00%FFa;"),
        (written(&[b'a'][..]), "b:a;"),
        (written(vec![b'a']), "b:a;"),
        (written(Bytes::from_static(b"a")), "b:a;"),
        (written([]), "b:;"),
        (written(()), "n;"),
        (written(false), "u:0;"),
        (written(true), "u:1;"),
        (written(42_u8), "u:42;"),
        (written(42_u128), "u:42;"),
        (written(42_usize), "u:42;"),
        (written(u128::MAX), &format!("u:{};", u128::MAX)),
        (written(-5_i8), "i:-5;"),
        (written(-5_i128), "i:-5;"),
        (written(-5_isize), "i:-5;"),
        (written(i128::MIN), &format!("i:{};", i128::MIN)),
        (written(v4), "4:192.0.2.1;"),
        (written(IpAddr::V4(v4)), "4:192.0.2.1;"),
        (written(v6), "6:2001:db8::1;"),
        (written(IpAddr::V6(v6)), "6:2001:db8::1;"),
        (written(v4.to_ipv6_mapped()), "6:::ffff:192.0.2.1;"),
        (written(v4.to_ipv6_compatible()), "6:::c000:201;"),
        (written(Ipv6Addr::UNSPECIFIED), "6:::;"),
        (written(runs), "6:1:0:0:2::3;"),
        (written(None::<u8>), "n;"),
        (written(Some(1_u8)), "o;u:1;"),
        (written(Some(None::<u8>)), "o;n;"),
        (written(("a", 1_u8)), "s:a;u:1;"),
        (
            written(((), 1_u8, "b", 'c', -1, ())),
            "n;u:1;s:b;s:c;i:-1;n;",
        ),
        (written((1_u8, (2_u8, 3_u8), 4_u8)), "u:1;u:2;u:3;u:4;"),
        (written(shared()), "n;"),
        (written(Some(shared())), "o;n;"),
        (header(b""), "x:9odHaANIGTttOxb2Z2haHg;"),
        (header(b"sk-live-1"), "x:Yr8uNvS_17etIlh-Nr-TUw;"),
        (header(&[b'x'; 63]), "X:B6K0cB58qvsYIqCD8C2NDQ;"),
        (written("a".repeat(65)), "S:IDvz06rRpbBrv1TzOF79Dg;"),
        (written([b'a'; 65]), "B:VvyMoRcSNwSXML_wRqNqpg;"),
        (written("a".repeat(65_536)), "S:YcS2As2c9VT1ST250y-W8A;"),
        (written(" ".repeat(22)), "S:pu2OEoiRcTXPdBikTlM6vg;"),
    ] {
        assert_eq!(found, pinned);
    }
}

#[cfg(feature = "axum")]
#[test]
fn a_route_is_its_pattern_and_no_route_is_none_of_them() {
    use crate::key::RouteKey;

    assert_eq!(written(RouteKey::from("/users/{id}")), "s:/users/%7Bid%7D;");
    assert_eq!(written(RouteKey::from("")), "s:;");
    assert_eq!(written(RouteKey::unmatched()), "n;");
}

#[test]
fn a_digest_depends_on_its_key_alone() {
    let with = |key| {
        KeyParts::keyed(key)
            .secret(b"sk-live-1")
            .as_bytes()
            .to_vec()
    };
    assert_eq!(with(&[7; 32]), b"x:9yK7OmANwq0JKjl_uprD8w;");
    assert_eq!(with(&[7; 32]), with(&[7; 32]));
    assert_ne!(with(&[7; 32]), with(&[8; 32]));

    // One state serves any number of keys.
    let ours = DigestKey::new(&[7; 32]);
    for _ in 0..3 {
        let mut parts = KeyParts::after(Vec::new(), &ours);
        assert_eq!(parts.secret(b"sk-live-1").as_bytes(), with(&[7; 32]));
    }
}
