//! The dialects of the rate-limit fields of a response.

use std::time::Duration;

use http::{HeaderName, header::RETRY_AFTER};

use super::retry_after::whole_seconds;
use crate::decision::PolicyDecision;

pub(super) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT_6: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING_6: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET_6: HeaderName = HeaderName::from_static("ratelimit-reset");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
pub(super) const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Which rate-limit fields are sent, to admitted and refused callers alike.
///
/// Every number of seconds is rounded up, and counts *from now*: none is a time of day. A number of
/// more than 15 digits is sent as 999 999 999 999 999. Scripts in a browser see these fields only
/// if the CORS layer exposes their [names](Self::names).
///
/// # Example: one answer in two dialects
///
/// ```
/// # use std::time::Duration;
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Judgement, Policy, Status}};
/// use tollgate::response::{Fields, Http};
///
/// # let policy = Policy::new("token-bucket", &[40], Duration::from_secs(2)).named("api").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 39, judgement: Judgement::Admitted, replenished_after_micros: 50_000,
/// #     reset_after_micros: 50_000, delay_micros: 0,
/// # }));
/// let mut headers = http::HeaderMap::new();
/// Http::new().add_fields(&decision, &mut headers);
/// assert_eq!(headers["RateLimit-Policy"], r#""api";q=40;w=2"#);
/// assert_eq!(headers["RateLimit"], r#""api";r=39;t=1"#);
///
/// let mut headers = http::HeaderMap::new();
/// Http::new().fields(Fields::XRateLimit).add_fields(&decision, &mut headers);
/// assert_eq!(headers["X-RateLimit-Remaining"], "39");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Fields {
    /// `RateLimit-Policy: "api";q=40;w=2` and `RateLimit: "api";r=39;t=1`, the structured form of
    /// draft-ietf-httpapi-ratelimit-headers-11 (the same bytes since draft 08).
    ///
    /// `q` is the most units at once, `w` the seconds until all of them are back (left out below
    /// one second, which the draft cannot express), and `qu="concurrent-requests"` says that the
    /// units are requests in flight. `r` is the units left, `t` the seconds until there are more
    /// (left out if none is missing). A tuple of algorithms has a member for each policy; on a
    /// refusal `RateLimit` has only the policies that refuse. Lines of an inner layer are kept
    /// before these.
    #[default]
    Draft11,
    /// `RateLimit: limit=40, remaining=39, reset=1` and `RateLimit-Policy: 40;w=2`, as in draft 07.
    ///
    /// It describes the [binding](crate::Decision::policy) policy, with the least `remaining` of
    /// all. `reset` is the seconds until all units are back; on a refusal it equals `Retry-After`.
    /// If an inner layer has sent a smaller `remaining`, its fields are kept. A policy with a
    /// window below one second is not listed.
    Draft7,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` and `RateLimit-Policy: 40;w=2`,
    /// as in draft 06; otherwise like [`Draft7`](Self::Draft7).
    Draft6,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, as many APIs have
    /// them; otherwise like [`Draft7`](Self::Draft7).
    ///
    /// APIs differ in what `X-RateLimit-Reset` means (GitHub sends a Unix time, Envoy seconds from
    /// now). Here it is **seconds from now**, which a caller with a wrong clock can use.
    XRateLimit,
    /// None. A refusal still has `Retry-After`.
    // The last one: `ALL` takes its length from it.
    Off,
}

impl Fields {
    /// Every dialect, for what must hold of each.
    #[doc(hidden)]
    pub const ALL: [Self; Self::Off as usize + 1] = [
        Self::Draft11,
        Self::Draft7,
        Self::Draft6,
        Self::XRateLimit,
        Self::Off,
    ];

    /// The fields that a response may have, with `Retry-After`: a CORS layer must expose them, or a
    /// browser hides them from its scripts.
    ///
    /// With tower-http, write `.expose_headers(Fields::Draft11.names().to_vec())` on its
    /// `CorsLayer`.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::response::Fields;
    ///
    /// assert_eq!(Fields::Draft11.names(), ["retry-after", "ratelimit", "ratelimit-policy"]);
    /// assert_eq!(Fields::Off.names(), ["retry-after"]);
    /// ```
    pub fn names(self) -> &'static [HeaderName] {
        static STRUCTURED: [HeaderName; 3] = [RETRY_AFTER, RATE_LIMIT, POLICY];
        static SIX: [HeaderName; 5] = [RETRY_AFTER, LIMIT_6, REMAINING_6, RESET_6, POLICY];
        static X: [HeaderName; 4] = [RETRY_AFTER, X_LIMIT, X_REMAINING, X_RESET];
        match self {
            Self::Draft11 | Self::Draft7 => &STRUCTURED,
            Self::Draft6 => &SIX,
            Self::XRateLimit => &X,
            Self::Off => &STRUCTURED[..1],
        }
    }

    /// The same without `Retry-After`, which every dialect has.
    pub(super) fn rate_limit_names(self) -> &'static [HeaderName] {
        &self.names()[1..]
    }
}

/// The window in seconds; `None` below one second, which the drafts cannot express.
pub(super) fn window_seconds(policy: &PolicyDecision) -> Option<u64> {
    let window = policy.window();
    (window >= Duration::from_secs(1)).then(|| whole_seconds(window))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::response::{
        field_writer::FieldWriter,
        tests::{SECOND, admitted_with},
    };

    #[test]
    fn a_number_that_no_structured_field_can_hold_is_clamped_to_fifteen_digits() {
        let decision = admitted_with(u64::MAX, SECOND, u64::MAX, SECOND);
        for fields in Fields::ALL {
            let mut headers = HeaderMap::new();
            FieldWriter::new(fields).add(&decision, &mut headers);
            for line in headers.values().map(|line| line.to_str().unwrap()) {
                let digits = line.split(|character: char| !character.is_ascii_digit());
                assert!(digits.clone().all(|digits| digits.len() <= 15), "{line}");
            }
        }
    }
}
