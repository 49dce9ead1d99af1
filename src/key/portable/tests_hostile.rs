//! Hostile keys: made to look like other keys, to be long, or to mean something to another program.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use fastrand::Rng;

use super::{tests::written, *};
use crate::key::HeaderKey;

#[test]
fn text_and_bytes_of_every_length_are_bounded_and_distinct() {
    let mut seen = HashMap::new();
    for length in [0, 1, 2, 21, 22, 31, 32, 63, 64, 65, 66, 4096, 65_536] {
        for letter in ["a", "b", "\0", " ", "}"] {
            let text = letter.repeat(length);
            for bytes in [written(text.as_str()), written(text.as_bytes())] {
                assert!(bytes.len() <= KeyParts::MAX_PART_LEN, "{bytes}");
                let same = seen.insert(bytes, (length, letter));
                assert!(length == 0 || same.is_none(), "{same:?}");
            }
        }
    }
    let long = "é".repeat(32_768);
    let six = (
        &long,
        &long,
        [0xFF; 999],
        u128::MAX,
        i128::MIN,
        Ipv6Addr::from([0xFF; 16]),
    );
    assert!(written(six).len() <= 6 * KeyParts::MAX_PART_LEN);
    // The longest there is.
    assert_eq!(KeyParts::MAX_PART_LEN, 67);
    assert_eq!(written("a".repeat(64)).len(), KeyParts::MAX_PART_LEN);
}

#[test]
fn whatever_is_in_a_key_its_bytes_are_plain() {
    let hostile = [
        "\r\n", "\0", "{x}", "{}", "}", "{", "*", "a b", " ", "?", "[a-z]", "\\", "\"", "'", "$x",
        "`", "\x1b[31m", "\u{202e}", "é", "e\u{301}", "%", ";", "|", "&", "#",
    ];
    let mut seen = HashMap::new();
    for text in hostile {
        for bytes in [
            written(text),
            written((text, text)),
            written(text.as_bytes()),
        ] {
            assert_plain(&bytes);
            assert_eq!(seen.insert(bytes, text), None);
        }
    }
    for byte in 0..=255_u8 {
        let bytes = written([byte]);
        assert_plain(&bytes);
        let same = seen.insert(bytes, "a byte alone");
        assert!(
            same.is_none_or(|text| text.as_bytes() == [byte]),
            "{same:?}"
        );
    }
}

fn assert_plain(bytes: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:@+=,%;".contains(c);
    assert!(bytes.chars().all(is_plain), "{bytes:?}");
}

#[test]
fn nothing_of_a_secret_is_in_its_bytes() {
    for secret in [
        "k",
        "0000",
        "sk-live-12345678",
        &"secret".repeat(10),
        &"secret".repeat(99),
    ] {
        for bytes in [
            written(HeaderKey::from(secret)),
            written((HeaderKey::from(secret), Some(HeaderKey::from(secret)))),
            String::from_utf8(
                KeyParts::new()
                    .secret(secret.as_bytes())
                    .clone()
                    .into_bytes(),
            )
            .unwrap(),
        ] {
            assert_plain(&bytes);
            let digests: Vec<_> = bytes
                .split_terminator(';')
                .filter(|part| *part != "o")
                .collect();
            assert!(digests.iter().all(|part| part.len() == 24), "{bytes}");
            // One character may be in a digest by chance.
            assert!(secret.len() == 1 || !bytes.contains(secret), "{bytes}");
        }
    }
    let key = *b"a key that must not be printed..";
    assert_eq!(format!("{:?}", DigestKey::new(&key)), "DigestKey { .. }");
    let printed = format!("{:?}", KeyParts::keyed(&key).secret(b"sk-live-1"));
    assert!(
        !printed.contains("sk-live") && !printed.contains("printed"),
        "{printed}"
    );
}

/// One call of a method of [`KeyParts`].
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Bytes(Vec<u8>),
    Number(u128),
    Signed(i128),
    Address(IpAddr),
    Secret(Vec<u8>),
    Absent,
    Present,
}

impl Part {
    fn write_to(&self, parts: &mut KeyParts) {
        match self {
            Self::Text(text) => parts.text(text),
            Self::Bytes(bytes) => parts.bytes(bytes),
            Self::Number(number) => parts.number(*number),
            Self::Signed(number) => parts.signed(*number),
            Self::Address(ip) => parts.address(*ip),
            Self::Secret(secret) => parts.secret(secret),
            Self::Absent => parts.absent(),
            Self::Present => parts.present(),
        };
    }
}

/// Text of characters with a meaning in the format, so that one part may look like two, or like
/// another.
fn text(random: &mut Rng) -> String {
    const PIECES: [&str; 16] = [
        "", "a", "b", ":", ";", "%", "%3B", "s:", "u:1;", "n;", "o", "x:", "-", "1", "é", "::",
    ];
    let pieces = if random.usize(..8) == 0 { 40 } else { 3 };
    (0..random.usize(..pieces))
        .map(|_| PIECES[random.usize(..PIECES.len())])
        .collect()
}

fn part(random: &mut Rng) -> Part {
    match random.usize(..8) {
        0 | 1 => Part::Text(text(random)),
        2 => Part::Bytes(text(random).into_bytes()),
        3 => Part::Number(random.u128(..13)),
        4 => Part::Signed(random.i128(-6..=6)),
        5 if random.bool() => Part::Address(Ipv4Addr::from(random.u32(..300)).into()),
        5 => Part::Address(Ipv6Addr::from(random.u128(..300)).into()),
        6 => Part::Secret(text(random).into_bytes()),
        _ if random.bool() => Part::Absent,
        _ => Part::Present,
    }
}

#[test]
fn no_two_sequences_of_parts_give_the_same_bytes() {
    let mut random = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    let mut seen = HashMap::<Vec<u8>, Vec<Part>>::new();
    let mut again = 0;
    for _ in 0..100_000 {
        let sequence: Vec<_> = (0..random.usize(..4)).map(|_| part(&mut random)).collect();
        let mut parts = KeyParts::new();
        for part in &sequence {
            part.write_to(&mut parts);
        }
        let bytes = parts.into_bytes();
        assert!(bytes.len() <= sequence.len() * KeyParts::MAX_PART_LEN);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_plain(&text);
        // What the proof stands on: each part ends at its only semicolon.
        assert_eq!(
            text.matches(';').count(),
            sequence.len(),
            "{text} {sequence:?}"
        );
        if let Some(other) = seen.insert(bytes, sequence.clone()) {
            assert_eq!(other, sequence, "{text}");
            again += 1;
        }
    }
    // The loop would prove little if nothing came twice, or hardly anything else.
    assert!(
        again > 1000 && seen.len() > 10_000,
        "{again} of {}",
        seen.len()
    );
}
