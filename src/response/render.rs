//! Writes the response to a refused request: its status and its body.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::{
    problem_json::problem_json,
    refusal::{Reason, Refusal},
};

/// What a refused request is answered with. A rejection is sent as it is, but for a closure.
#[derive(Clone, Default)]
pub(super) enum Render {
    #[default]
    Problem,
    ProblemOfType(Cow<'static, str>),
    PlainText,
    Own(Arc<RenderOwn>),
}

type RenderOwn = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;

impl Render {
    pub(super) fn render(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let status = refusal.status();
        let json = |json| with_body(status, "application/problem+json", json);
        match (self, refusal.reason()) {
            (Self::Own(render), _) => render(refusal),
            (_, Reason::Rejected(rejection)) => rejection.clone(),
            (Self::Problem, _) => json(problem_json(refusal, None)),
            (Self::ProblemOfType(uri), _) => json(problem_json(refusal, Some(uri))),
            (Self::PlainText, _) => {
                let text = format!("{}\n", refusal.message());
                with_body(status, "text/plain; charset=utf-8", text)
            }
        }
    }
}

/// A response with this body.
fn with_body(status: StatusCode, content_type: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        error::StoreErrorKind,
        response::{Http, tests::refused_for},
    };

    fn own() -> Http {
        Http::new().render(|refusal| {
            let response = Response::builder().status(503).header("retry-after", "9");
            let response = response.header("cache-control", "private");
            let policy = refusal.decision().map(|decision| decision.policy());
            response
                .header("ratelimit", "mine")
                .body(policy.unwrap_or_default().to_owned().into())
                .unwrap()
        })
    }

    #[test]
    fn plain_text_is_one_line_with_the_status_it_stands_for() {
        let decision = refused_for(Duration::from_secs(2));
        let refused = Render::PlainText.render(&Refusal::new(Reason::Limited(&decision)));
        assert_eq!(refused.status(), 429);
        assert_eq!(
            refused.body(),
            "The rate limit is exceeded. Try again in 2 seconds.\n"
        );
        let failed = |kind| Render::PlainText.render(&Refusal::new(Reason::StoreFailed(kind)));
        let unavailable = failed(StoreErrorKind::Unavailable);
        assert_eq!(unavailable.status(), 503);
        assert!(unavailable.body().ends_with(b"unavailable.\n"));
        let misconfigured = failed(StoreErrorKind::Misconfigured);
        assert_eq!(misconfigured.status(), 500);
        for response in [refused, unavailable, misconfigured] {
            assert_eq!(
                response.headers()["content-type"],
                "text/plain; charset=utf-8"
            );
        }
    }

    #[test]
    fn what_a_renderer_has_set_itself_is_kept() {
        let response: Response<Bytes> = own().response(&refused_for(Duration::from_secs(2)));
        assert_eq!(
            (response.status().as_u16(), &**response.body()),
            (503, &b"api"[..])
        );
        assert_eq!(response.headers()["retry-after"], "9");
        assert_eq!(response.headers()["cache-control"], "private");
        assert_eq!(response.headers()["ratelimit"], "mine");
        assert!(!response.headers().contains_key("ratelimit-policy"));
    }
}
