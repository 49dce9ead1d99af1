//! Instructions for one decision, counted by callgrind: they repeat where times don't.
//!
//! Each subject runs under valgrind as a process of its own: this one, with its name as an
//! argument. Only what `measured_decisions` does is counted.

use std::{env, hint::black_box, net::IpAddr, process::Command};

use tollgate_benches::callgrind::instructions_of_a_call;
use tollgate_peers::{
    keys::keys,
    limit::{Answer, Limit},
    own::{Bare, Check, token_bucket},
    peers::{
        AxumGcra, Governor, Limitador, Limiter, SkpRatelimit, ThrottleKit, Throttlecrab, Trypema,
    },
    table,
    turns::multiple,
};

const KEYS: u32 = 1_000;
const DECISIONS: usize = 20_000;

const TEXT: &str = "Instructions for one decision by one of a thousand keys, counted by callgrind, and tollgate's as a \
    multiple of the peer's. Seeds of hashes differ from run to run, so the last digit may.";

const BY_ADDRESS: [&str; 2] = ["governor", "axum_gcra"];
const BY_STRING: [&str; 6] = [
    "governor",
    "throttle-kit",
    "throttlecrab",
    "skp-ratelimit",
    "trypema",
    "limitador",
];

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, subject, answer, keys] = &arguments[..] {
        let answer = if answer == "refused" {
            Answer::Refused
        } else {
            Answer::Admitted
        };
        return match &keys[..] {
            "IPv4" => decide_by_address(subject, answer),
            _ => decide_by_string(subject, answer),
        };
    }
    table::section("Instructions", TEXT);
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("\nvalgrind is not installed here: nothing was counted.");
        return;
    }
    table::head(&[
        "peer",
        "keys",
        "answer",
        "its instructions",
        "`check`",
        "layer",
    ]);
    for answer in ["admitted", "refused"] {
        for (keys, peers) in [("IPv4", &BY_ADDRESS[..]), ("string", &BY_STRING)] {
            let check = count("check", answer, keys);
            let layer = count("layer", answer, keys);
            for peer in peers {
                let its = count(peer, answer, keys);
                table::row(&[
                    peer,
                    &keys,
                    &answer,
                    &format!("{its:.0}"),
                    &beside(check, its),
                    &beside(layer, its),
                ]);
            }
        }
    }
}

/// Ours, and as a multiple of its.
fn beside(ours: f64, its: f64) -> String {
    format!("{ours:.0}, {}", multiple(ours / its))
}

/// Instructions of one decision.
fn count(subject: &str, answer: &str, keys: &str) -> f64 {
    let measured = ("measured_decisions", DECISIONS);
    instructions_of_a_call(&[subject, answer, keys], measured)
}

fn decide_by_address(subject: &str, answer: Answer) {
    let limit = Limit::that_is(answer, KEYS as usize);
    let keys = keys::<IpAddr>(KEYS);
    match subject {
        "check" => decide(Check::new(token_bucket(limit)), &keys),
        "layer" => decide(Bare::new(token_bucket(limit)), &keys),
        "governor" => decide(Governor::new(limit), &keys),
        _ => decide(AxumGcra::new(limit), &keys),
    }
}

fn decide_by_string(subject: &str, answer: Answer) {
    let limit = Limit::that_is(answer, KEYS as usize);
    let keys = keys::<String>(KEYS);
    match subject {
        "check" => decide(Check::new(token_bucket(limit)), &keys),
        "layer" => decide(Bare::new(token_bucket(limit)), &keys),
        "governor" => decide(Governor::new(limit), &keys),
        "throttle-kit" => decide(ThrottleKit::new(limit), &keys),
        "throttlecrab" => decide(Throttlecrab::new(limit), &keys),
        "skp-ratelimit" => decide(SkpRatelimit::new(limit), &keys),
        "trypema" => decide(Trypema::new(limit), &keys),
        _ => decide(Limitador::new(limit), &keys),
    }
}

fn decide<K>(limiter: impl Limiter<K>, keys: &[K]) {
    // Those who are to be refused have bursts of two, and one has bursts of one more after it has
    // been idle.
    for _ in 0..3 {
        for key in keys {
            limiter.admits(key);
        }
    }
    measured_decisions(&limiter, keys);
}

#[inline(never)]
fn measured_decisions<K>(limiter: &impl Limiter<K>, keys: &[K]) {
    for key in keys.iter().cycle().take(DECISIONS) {
        black_box(limiter.admits(key));
    }
}
