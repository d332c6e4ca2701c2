//! What a response tells beside its result: windows, and whether it is a refusal.

use std::time::{Duration, SystemTime};

use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use seawall_control::controller::Feedback;
use seawall_control::fields::{self, Name};
use seawall_control::request::{Rejected, Stage};

use crate::headers::{ENVOY_OVERLOADED, GRPC_PUSHBACK, GRPC_STATUS, is_grpc, lines};

/// gRPC's numbers of its statuses.
const DEADLINE_EXCEEDED: u8 = 4;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// A server has refused a request before it had an effect.
///
/// A response that is a refusal has it in its extensions; [`Refusal::of`] reads it from any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The name of the stage that refused, if the server told one.
    pub stage: Option<Name>,
    /// Where it was refused, for how long it would have waited, and when to come back. What a
    /// server's own stages are called only their names tell: they share a number here.
    pub rejected: Rejected,
    /// The client has used up its quota (429, `RESOURCE_EXHAUSTED`); the server may have time for
    /// others.
    pub quota: bool,
    /// False if the server does not want to see it again, at no replica: it says so
    /// (`grpc-retry-pushback-ms` below zero), or the request has run out of time.
    pub may_retry: bool,
}

impl Refusal {
    /// Reads a response; `None` if it is no refusal, or if it does not say that the request had no
    /// effect.
    pub fn of<B>(response: &Response<B>) -> Option<Self> {
        match News::of_head(response.status(), response.headers()).fate {
            Fate::Refused(refusal) => Some(*refusal),
            _ => None,
        }
    }
}

/// What became of a request, as far as a response says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It ran, or runs.
    Served,
    Refused(Box<Refusal>),
    /// It has failed, and may have run before.
    Unsure,
}

/// All that a response tells.
#[derive(Clone, Debug)]
pub(super) struct News {
    pub(super) fate: Fate,
    pub(super) feedback: Feedback,
    pub(super) service: Duration,
    pub(super) queue_delay: Duration,
}

impl News {
    /// What the head of a response tells.
    pub(super) fn of_head(status: StatusCode, headers: &HeaderMap) -> Self {
        let told = fields::Response::read(lines(headers)).fields;
        let fate = if is_grpc(headers) && status == StatusCode::OK {
            // Without a status in its head, a call is under way, and its trailers will tell.
            grpc_status(headers).map_or(Fate::Served, |code| of_grpc(code, headers, &told))
        } else {
            of_http(status, headers, &told)
        };
        Self::new(fate, &told)
    }

    /// What the trailers tell of a response whose head was this.
    pub(super) fn of_trailers(trailers: &HeaderMap) -> Self {
        let told = fields::Response::read(lines(trailers)).fields;
        let code = grpc_status(trailers);
        Self::new(code.map_or(Fate::Served, |code| of_grpc(code, trailers, &told)), &told)
    }

    fn new(fate: Fate, told: &fields::Response) -> Self {
        Self {
            fate,
            feedback: told.feedback,
            service: told.service.unwrap_or_default(),
            queue_delay: told.queue.unwrap_or_default(),
        }
    }
}

/// Statuses of HTTP. A stage's name makes any of them a refusal: which status a server refuses
/// with is its own choice.
fn of_http(status: StatusCode, headers: &HeaderMap, told: &fields::Response) -> Fate {
    let quota = status == StatusCode::TOO_MANY_REQUESTS;
    let unavailable = status == StatusCode::SERVICE_UNAVAILABLE;
    let says_when = headers.contains_key(RETRY_AFTER);
    let overloaded = headers.get(ENVOY_OVERLOADED).is_some_and(|value| value == "true");
    if told.stage.is_none() && !quota && !(unavailable && (says_when || overloaded)) {
        return if unavailable { Fate::Unsure } else { Fate::Served };
    }
    let hint = headers.get(RETRY_AFTER).and_then(retry_after);
    let may_retry = status != StatusCode::GATEWAY_TIMEOUT;
    Fate::Refused(Box::new(refusal(told, hint, quota, may_retry)))
}

/// Statuses of gRPC; `headers` are those that have it, at the head or at the end.
fn of_grpc(code: u8, headers: &HeaderMap, told: &fields::Response) -> Fate {
    let pushback = headers.get(GRPC_PUSHBACK).map(pushback);
    let quota = code == RESOURCE_EXHAUSTED;
    let says_when = code == UNAVAILABLE && pushback.is_some();
    if told.stage.is_none() && !quota && !says_when {
        return if code == UNAVAILABLE { Fate::Unsure } else { Fate::Served };
    }
    let may_retry = pushback != Some(None) && code != DEADLINE_EXCEEDED;
    Fate::Refused(Box::new(refusal(told, pushback.flatten(), quota, may_retry)))
}

fn refusal(
    told: &fields::Response,
    hint: Option<Duration>,
    quota: bool,
    may_retry: bool,
) -> Refusal {
    // Microseconds rather than the seconds that they were rounded up to.
    let retry_after = told.retry_after.or(hint).unwrap_or_default();
    let predicted = told.predicted.unwrap_or(retry_after);
    // Of an application's own stages the names tell, and no number means the same everywhere.
    let own = Stage(Stage::FIRST_OWN);
    let stage =
        told.stage.map_or(Stage::ADMISSION, |name| Stage::named(name.as_str()).unwrap_or(own));
    let rejected = Rejected::new(stage, predicted, Duration::MAX).with_retry_after(retry_after);
    Refusal { stage: told.stage, rejected, quota, may_retry }
}

fn grpc_status(headers: &HeaderMap) -> Option<u8> {
    headers.get(GRPC_STATUS)?.to_str().ok()?.parse().ok()
}

/// When to come back; `None` if never: the value is negative, or not to be understood (gRFC A6).
fn pushback(value: &HeaderValue) -> Option<Duration> {
    let millis: i32 = value.to_str().ok()?.parse().ok()?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// Seconds, or a date (RFC 9110 §10.2.3).
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)]) -> Response<()> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap()
    }

    fn fate(status: u16, headers: &[(&str, &str)]) -> Fate {
        let response = response(status, headers);
        News::of_head(response.status(), response.headers()).fate
    }

    fn grpc(headers: &[(&str, &str)]) -> Fate {
        fate(200, &[&[("content-type", "application/grpc+proto")], headers].concat())
    }

    fn refused(fate: Fate) -> Refusal {
        match fate {
            Fate::Refused(refusal) => *refusal,
            other => panic!("no refusal: {other:?}"),
        }
    }

    #[test]
    fn the_field_names_the_stage_and_the_exact_times() {
        let told = "stage=\"run_queue\", predicted=900, retry-after=12000";
        let refusal = refused(fate(503, &[("seawall", told), ("retry-after", "1")]));
        let (ms, us) = (Duration::from_millis, Duration::from_micros);
        let rejected = Rejected::new(Stage::RUN_QUEUE, us(900), Duration::MAX);
        assert_eq!(refusal.rejected, rejected.with_retry_after(ms(12)));
        assert_eq!(refusal.stage, Name::new("run_queue"));
        assert!(refusal.may_retry && !refusal.quota);
        let own = refused(fate(529, &[("seawall", "stage=\"lock:orders\"")]));
        assert_eq!(own.rejected.stage, Stage(Stage::FIRST_OWN));
        assert!(!own.rejected.stage.concerns_all());
    }

    #[test]
    fn other_servers_refuse_with_a_time_or_a_quota() {
        let later = refused(fate(503, &[("retry-after", "3")]));
        assert_eq!(later.rejected.stage, Stage::ADMISSION);
        assert_eq!(later.rejected.retry_after, Duration::from_secs(3));
        assert!(refused(fate(429, &[])).quota);
        assert!(!refused(fate(503, &[("x-envoy-overloaded", "true")])).quota);
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3_600));
        let hint = refused(fate(503, &[("retry-after", &date)])).rejected.retry_after;
        assert!(
            hint > Duration::from_secs(3_000) && hint <= Duration::from_secs(3_600),
            "{hint:?}"
        );
        let past = "Sun, 06 Nov 1994 08:49:37 GMT";
        let hint = refused(fate(503, &[("retry-after", past)])).rejected.retry_after;
        assert_eq!(hint, Duration::ZERO);
    }

    #[test]
    fn what_says_nothing_of_effects_is_no_refusal() {
        assert_eq!(fate(503, &[]), Fate::Unsure);
        for status in [200, 404, 500, 502, 504] {
            assert_eq!(fate(status, &[("retry-after", "1")]), Fate::Served, "{status}");
        }
        assert_eq!(grpc(&[("grpc-status", "14")]), Fate::Unsure);
        for code in ["0", "4", "5", "13"] {
            assert_eq!(grpc(&[("grpc-status", code)]), Fate::Served, "{code}");
        }
        assert_eq!(grpc(&[]), Fate::Served, "its trailers will tell");
    }

    #[test]
    fn grpc_pushes_back() {
        let after = |value| {
            let refusal =
                refused(grpc(&[("grpc-status", "14"), ("grpc-retry-pushback-ms", value)]));
            refusal.may_retry.then_some(refusal.rejected.retry_after)
        };
        assert_eq!(after("250"), Some(Duration::from_millis(250)));
        assert_eq!(after("0"), Some(Duration::ZERO));
        for never in ["-1", "soon", "", "1.5", "2147483648"] {
            assert_eq!(after(never), None, "{never:?}");
        }
        let quota = refused(grpc(&[("grpc-status", "8")]));
        assert!(quota.quota && quota.may_retry);
        let late = refused(grpc(&[("grpc-status", "4"), ("seawall", "stage=\"socket\"")]));
        assert!(!late.may_retry, "its time is over");
    }

    #[test]
    fn trailers_tell_windows_and_late_refusals() {
        let trailers = response(200, &[("seawall", "window=3, seq=9"), ("grpc-status", "0")]);
        let news = News::of_trailers(trailers.headers());
        assert_eq!(news.feedback, Feedback::Window { size: 3, seq: 9 });
        assert_eq!(news.fate, Fate::Served);
        let refusal = [("seawall", "stage=\"lock:orders\""), ("grpc-status", "14")];
        let late = News::of_trailers(response(200, &refusal).headers());
        assert_eq!(refused(late.fate).stage, Name::new("lock:orders"));
    }

    #[test]
    fn grpc_web_is_http() {
        let web = [("content-type", "application/grpc-web+proto"), ("grpc-status", "14")];
        assert_eq!(fate(200, &web), Fate::Served);
        let broken = [("content-type", "application/grpc")];
        assert_eq!(fate(503, &broken), Fate::Unsure, "who answers so speaks HTTP");
    }
}
