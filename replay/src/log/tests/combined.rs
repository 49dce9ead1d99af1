use http::Method;

use crate::log::{Format, Options, Reader};

#[test]
fn a_combined_line_tells_its_request() {
    let log = b"192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a?b=c HTTP/1.1\" 200 2326 \"http://example.com/\" \"curl/8\"\n";
    let mut reader = Reader::new(&log[..], None, Options::default()).unwrap();
    assert_eq!(reader.format(), Format::Combined);
    let logged = reader.next().unwrap().unwrap();
    assert_eq!(logged.started_micros, 971_211_336_000_000);
    assert_eq!(logged.address, Some("192.0.2.1".parse().unwrap()));
    assert_eq!(logged.user.as_deref(), Some("frank"));
    assert_eq!(
        (logged.method, logged.uri.to_string()),
        (Method::GET, "/a?b=c".into())
    );
    assert_eq!(logged.headers["user-agent"], "curl/8");
    assert_eq!(logged.headers["referer"], "http://example.com/");
    assert_eq!(logged.status, Some(200));
    assert!(reader.next().is_none());
}
