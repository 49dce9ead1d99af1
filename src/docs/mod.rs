//! Chapters, one for each larger question.
//!
//! | chapter | for |
//! |---|---|
//! | [`cookbook`] | short recipes: logins, plans, costs, streams, waiting |
//! | [`several_limits`] | several algorithms in one check, or several keys: the address *and* the account |
//! | [`plans`] | free and paid callers; quotas that change while the program runs |
//! | [`limits_from_a_file`] | quotas, algorithms, or rules for all routes, in TOML, YAML or JSON |
//! | [`costs_known_afterwards`] | failed logins only, tokens of a language model, bytes sent: hold, and settle |
//! | [`keys_from_anywhere`] | a key from the body, a handler that uses the layer's limiter, limits from a database, jail |
//! | [`answers`] | what is sent, and how to change it |
//! | [`your_tests`] | tests of your own limits, with a manual clock |
//! | [`keys_and_spoofing`] | which key to choose, trusted proxies, what a caller can influence |
//! | [`redis`] | one limit for several processes: what is shared, what if Redis is down, holds |
//! | [`operating_redis`] | what to run, permissions, outages, metrics, log events |
//! | [`moving_in`] | from governor, tower_governor, axum-governor or tower's own limit |
//! | [`how_it_is_proved`] | each promise, how it is tested, and which test or command does it |

// Each chapter is always shown. Its code is compiled only with the features that it uses. A picture
// that is included here first is embedded into the docs. The link at the end of a chapter is for
// readers of the file.

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "tonic")),
    doc = include_str!("answers.md")
)]
pub mod answers {}

#[doc = include_str!("pictures/in_flight.md")]
#[cfg_attr(any(not(doctest), feature = "axum"), doc = include_str!("cookbook.md"))]
pub mod cookbook {}

#[doc = include_str!("pictures/hold_and_settle.md")]
#[cfg_attr(
    any(not(doctest), feature = "axum"),
    doc = include_str!("costs_known_afterwards.md")
)]
pub mod costs_known_afterwards {}

#[doc = include_str!("how_it_is_proved.md")]
pub mod how_it_is_proved {}

#[cfg_attr(any(not(doctest), feature = "axum"), doc = include_str!("keys_and_spoofing.md"))]
pub mod keys_and_spoofing {}

#[cfg_attr(any(not(doctest), feature = "axum"), doc = include_str!("keys_from_anywhere.md"))]
pub mod keys_from_anywhere {}

#[doc = include_str!("limits_from_a_file.md")]
pub mod limits_from_a_file {}

// Its code uses other crates, so the doc tests of the example `from_governor` run it.
#[doc = include_str!("pictures/leaky_bucket_queue.md")]
#[cfg_attr(not(doctest), doc = include_str!("moving_in.md"))]
pub mod moving_in {}

#[cfg_attr(any(not(doctest), feature = "redis"), doc = include_str!("operating_redis.md"))]
pub mod operating_redis {}

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "reload")),
    doc = include_str!("plans.md")
)]
pub mod plans {}

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "redis")),
    doc = include_str!("redis.md")
)]
pub mod redis {}

#[cfg_attr(any(not(doctest), feature = "axum"), doc = include_str!("several_limits.md"))]
pub mod several_limits {}

#[cfg_attr(any(not(doctest), feature = "local"), doc = include_str!("your_tests.md"))]
pub mod your_tests {}
