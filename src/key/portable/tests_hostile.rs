//! Hostile keys: made to look like other keys, to be long, or to mean something to another program.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
};

use fastrand::Rng;

use super::{tests::written, *};
use crate::key::HeaderKey;

#[test]
fn the_longest_part_is_of_text_that_just_fits() {
    assert_eq!(KeyParts::MAX_PART_LEN, 67);
    assert_eq!(written("a".repeat(64)).len(), KeyParts::MAX_PART_LEN);
}

fn assert_plain(bytes: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:@+=,%;".contains(c);
    assert!(bytes.chars().all(is_plain), "{bytes:?}");
}

#[test]
fn nothing_of_a_secret_is_in_its_bytes() {
    let [long, longer] = [10, 99].map(|times| "secret".repeat(times));
    for secret in ["k", "0000", "sk-live-12345678", &long, &longer] {
        let mut parts = KeyParts::new();
        let own = parts.secret(secret.as_bytes()).as_bytes().to_vec();
        let key = || HeaderKey::from(secret);
        for bytes in [
            written(key()),
            written((key(), Some(key()))),
            String::from_utf8(own).unwrap(),
        ] {
            assert_plain(&bytes);
            let mut digests = bytes.split_terminator(';').filter(|part| *part != "o");
            assert!(digests.all(|part| part.len() == 24), "{bytes}");
            // One character may be in a digest by chance.
            assert!(secret.len() == 1 || !bytes.contains(secret), "{bytes}");
        }
    }
    let key = *b"a key that must not be printed..";
    let printed = format!("{:?}", KeyParts::keyed(&key).secret(b"sk-live-1"));
    let is_secret = !printed.contains("sk-live") && !printed.contains("printed");
    assert!(is_secret, "{printed}");
}

/// Text of characters with a meaning in the format, so that one part may look like two, or like
/// another.
fn text(random: &mut Rng) -> String {
    const PIECES: [&str; 16] = [
        "", "a", "b", ":", ";", "%", "%3B", "s:", "u:1;", "n;", "o", "x:", "-", "1", "é", "::",
    ];
    let pieces = if random.usize(..8) == 0 { 40 } else { 3 };
    let text: String = (0..random.usize(..pieces))
        .map(|_| PIECES[random.usize(..PIECES.len())])
        .collect();
    match random.usize(..64) {
        0 => text.repeat(500),
        // Around the lengths from which on it is a digest.
        1 => "a".repeat(random.usize(62..67)),
        2 => " ".repeat(random.usize(20..24)),
        _ => text,
    }
}

/// Writes a part, and says what it is.
fn write_part(random: &mut Rng, parts: &mut KeyParts) -> String {
    let kind = random.usize(..9);
    let (text, small) = (text(random), random.u32(..300));
    let v6 = Ipv6Addr::from(u128::from(small));
    match kind {
        0 | 1 => parts.text(&text),
        2 => parts.bytes(text.as_bytes()),
        3 => parts.number(small % 13),
        4 => parts.signed(i128::from(small % 13) - 6),
        5 if small % 2 == 0 => parts.address(IpAddr::V4(small.into())),
        5 => parts.address(IpAddr::V6(v6)),
        6 => parts.secret(text.as_bytes()),
        7 => parts.absent(),
        _ => parts.present(),
    };
    match kind {
        0..=2 | 6 => format!("{} {text:?}", kind.max(1)),
        3 | 4 => format!("{kind} {}", small % 13),
        5 => format!("{kind} {small}"),
        _ => kind.to_string(),
    }
}

#[test]
fn no_two_sequences_of_parts_give_the_same_bytes() {
    let mut random = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    let mut seen = HashMap::<Vec<u8>, Vec<String>>::new();
    let mut again = 0;
    for _ in 0..100_000 {
        let (mut parts, count) = (KeyParts::new(), random.usize(..4));
        let part = |_| write_part(&mut random, &mut parts);
        let sequence: Vec<_> = (0..count).map(part).collect();
        let bytes = parts.into_bytes();
        assert!(bytes.len() <= sequence.len() * KeyParts::MAX_PART_LEN);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_plain(&text);
        // What the proof stands on: each part ends at its only semicolon.
        let ends = text.matches(';').count();
        assert_eq!(ends, sequence.len(), "{text} {sequence:?}");
        if let Some(other) = seen.insert(bytes, sequence.clone()) {
            assert_eq!(other, sequence, "{text}");
            again += 1;
        }
    }
    // The loop would prove little if nothing came twice, or hardly anything else.
    let all = seen.len();
    assert!(again > 1000 && all > 10_000, "{again} of {all}");
}
