//! What clients are told: the field, and refusals in the words of HTTP and gRPC.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use seawall_control::fields::{self, Name};
use seawall_control::request::{RefusalReason, Rejected, Stage};

use super::config::Statuses;
use super::refused::Refused;
use crate::headers::{
    ENVOY_OVERLOADED, GRPC_MESSAGE, GRPC_PUSHBACK, GRPC_STATUS, SEAWALL, lines, write_field,
};

/// The kinds of refusal that clients tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// There is too much to do: here, and now.
    Overload,
    /// The client itself sent more than it may.
    Quota,
    /// The client does not wait any more.
    Expired,
    /// Nobody knows who the client is.
    Unidentified,
}

impl Kind {
    fn status(self, statuses: &Statuses) -> StatusCode {
        match self {
            Self::Overload => Statuses::code(statuses.overload),
            Self::Quota => Statuses::code(statuses.quota),
            Self::Expired => Statuses::code(statuses.expired),
            Self::Unidentified => StatusCode::UNAUTHORIZED,
        }
    }

    /// `UNAVAILABLE` may be tried elsewhere, or again.
    fn grpc_status(self) -> &'static str {
        match self {
            Self::Overload => "14",
            Self::Quota => "8",
            Self::Expired => "4",
            Self::Unidentified => "16",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Overload => "refused: it could not have been served in time",
            Self::Quota => "refused: its client has sent more than it may",
            Self::Expired => "refused: its deadline has passed",
            Self::Unidentified => "refused: its sender has not said who it is",
        }
    }

    /// True if it makes sense to come back.
    fn invites(self) -> bool {
        matches!(self, Self::Overload | Self::Quota)
    }
}

/// A refusal on its way to the client.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// Of which kind it is.
    pub kind: Kind,
    /// When to come back, spread so that not all do at once; zero where nobody shall.
    pub back_in: Duration,
    /// What Seawall's field says.
    pub field: fields::Response,
}

impl Refusal {
    /// The refusal at a `stage` that is called so. `is_late` says that the client does not wait any
    /// more, and `news` what else there is to tell it. It is to come back when what delays requests
    /// now has drained, and `spread`, 0 to 1, times as much later again: unless it is late, and has
    /// nothing to come back for.
    pub fn new(
        rejected: &Rejected,
        is_late: bool,
        stage: Name,
        news: &fields::Response,
        spread: f64,
    ) -> Self {
        let kind = match rejected.reason {
            RefusalReason::WindowExceeded | RefusalReason::PrivilegeExceeded => Kind::Quota,
            _ if is_late => Kind::Expired,
            _ => Kind::Overload,
        };
        // A stage that cannot say how long it stays congested knows how long it would have taken.
        let own = match rejected.retry_after {
            Duration::ZERO => rejected.predicted_delay,
            after => after,
        };
        let drain = own.max(news.queue.unwrap_or_default());
        let drain = kind.invites().then_some(drain);
        let mut field = *news;
        field.stage = Some(stage);
        field.predicted = Some(rejected.predicted_delay);
        field.retry_after = drain;
        let drain = drain.unwrap_or_default();
        Self { kind, back_in: drain.saturating_add(drain.mul_f64(spread)), field }
    }

    /// The sender of the request must say who it is, and has not.
    pub fn unidentified() -> Self {
        let field = fields::Response::default();
        Self { kind: Kind::Unidentified, back_in: Duration::ZERO, field }
    }

    /// Says it in place of what the service said. `grpc` is the type of the content if the request
    /// is one of gRPC.
    pub fn write<B>(
        &self,
        statuses: &Statuses,
        grpc: Option<&HeaderValue>,
        response: &mut Response<B>,
    ) {
        let headers = response.headers_mut();
        write_field(headers, &self.field);
        if let Some(kind) = grpc {
            // A response with trailers only, whose trailers are its headers.
            headers.insert(CONTENT_TYPE, kind.clone());
            self.write_trailers(headers);
            *response.status_mut() = StatusCode::OK;
            return;
        }
        if self.kind.invites() {
            headers.insert(RETRY_AFTER, self.seconds());
        }
        if self.kind == Kind::Overload {
            headers.insert(ENVOY_OVERLOADED, HeaderValue::from_static("true"));
        }
        *response.status_mut() = self.kind.status(statuses);
    }

    /// Says it in the trailers of a response of gRPC.
    fn write_trailers(&self, trailers: &mut HeaderMap) {
        trailers.insert(GRPC_STATUS, HeaderValue::from_static(self.kind.grpc_status()));
        trailers.insert(GRPC_MESSAGE, HeaderValue::from_static(self.kind.message()));
        if self.kind.invites() {
            trailers.insert(GRPC_PUSHBACK, self.milliseconds());
        }
    }

    /// Adds what is missing to a refusal that somebody else has written, whose status stands, and
    /// replaces the field: its stage is theirs, and its window is ours.
    pub(super) fn amend(&self, headers: &mut HeaderMap, is_grpc: bool) {
        write_field(headers, &self.field);
        let name = if is_grpc { GRPC_PUSHBACK } else { RETRY_AFTER };
        if self.kind.invites() && !headers.contains_key(&name) {
            let value = if is_grpc { self.milliseconds() } else { self.seconds() };
            headers.insert(name, value);
        }
    }

    /// Whole seconds are all that `Retry-After` has, and none is not to be had.
    fn seconds(&self) -> HeaderValue {
        HeaderValue::from(self.back_in.as_millis().div_ceil(1000).clamp(1, 86_400) as u64)
    }

    fn milliseconds(&self) -> HeaderValue {
        HeaderValue::from(self.back_in.as_micros().div_ceil(1000).clamp(1, 86_400_000) as u64)
    }
}

/// What the field says of a refusal.
#[cfg(any(feature = "tonic", test))]
pub(super) fn field_of(rejected: &Rejected) -> fields::Response {
    let some = |time: Duration| (!time.is_zero()).then_some(time);
    let mut field = fields::Response::default();
    field.stage = Some(Name::lossy(&rejected.stage.to_string()));
    field.predicted = Some(rejected.predicted_delay);
    field.retry_after = some(rejected.retry_after);
    field
}

/// What the service itself says about how a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Served,
    Failed,
    /// A stage has refused it.
    Refused(Rejected),
    /// The same, and it is written already: by a service behind this one, which may know more than
    /// this one.
    RefusedBehind(Rejected, Theirs),
}

/// What a service behind this one has written of a refusal, beside the refusal itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Theirs {
    /// The name of the stage there, if it is not the number's.
    pub(super) name: Option<Name>,
    /// The client does not wait any more.
    pub(super) is_late: bool,
}

impl Said {
    /// By the head of a response.
    pub(super) fn by<B>(response: &Response<B>) -> Self {
        if let Some(Refused(rejected)) = response.extensions().get() {
            return Self::Refused(*rejected);
        }
        match Self::by_trailers(response.headers()) {
            Self::Served if response.status().is_server_error() => Self::Failed,
            Self::RefusedBehind(rejected, theirs) => {
                let is_late = theirs.is_late || response.status() == StatusCode::GATEWAY_TIMEOUT;
                Self::RefusedBehind(rejected, Theirs { is_late, ..theirs })
            }
            said => said,
        }
    }

    /// By trailers, or by headers, which are the trailers of a response that has nothing else.
    pub(super) fn by_trailers(trailers: &HeaderMap) -> Self {
        let status = trailers.get(GRPC_STATUS).map(HeaderValue::as_bytes);
        if trailers.contains_key(SEAWALL) {
            let field = fields::Response::read(lines(trailers)).fields;
            if let Some(name) = field.stage {
                let stage = Stage::named(name.as_str());
                let predicted = field.predicted.unwrap_or_default();
                let rejected =
                    Rejected::new(stage.unwrap_or(Stage::HANDLER), predicted, Duration::MAX)
                        .with_retry_after(field.retry_after.unwrap_or_default());
                let name = stage.is_none().then_some(name);
                let is_late = status == Some(Kind::Expired.grpc_status().as_bytes());
                return Self::RefusedBehind(rejected, Theirs { name, is_late });
            }
        }
        match status {
            // Errors of the server, as OpenTelemetry has them: UNKNOWN, DEADLINE_EXCEEDED,
            // UNIMPLEMENTED, INTERNAL, UNAVAILABLE and DATA_LOSS.
            Some(b"2" | b"4" | b"12" | b"13" | b"14" | b"15") => Self::Failed,
            _ => Self::Served,
        }
    }
}

/// True if a response of gRPC has no trailers to come.
pub(super) fn is_trailers_only(headers: &HeaderMap) -> bool {
    headers.contains_key(GRPC_STATUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(kind: Kind, back_in: Duration) -> Refusal {
        let rejected = Rejected::new(Stage::RUN_QUEUE, Duration::from_micros(900), Duration::ZERO);
        Refusal { kind, back_in, field: field_of(&rejected) }
    }

    fn header<'a, B>(response: &'a Response<B>, name: &str) -> Option<&'a str> {
        response.headers().get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn http_has_seconds_of_which_none_is_too_few() {
        let statuses = Statuses { overload: 529, ..Statuses::default() };
        for (kind, millis, status, back, envoy) in [
            (Kind::Overload, 3, 529, Some("1"), Some("true")),
            (Kind::Overload, 1_001, 529, Some("2"), Some("true")),
            (Kind::Quota, 0, 429, Some("1"), None),
            (Kind::Expired, 5, 504, None, None),
            (Kind::Unidentified, 5, 401, None, None),
        ] {
            let mut response = Response::new(());
            let refusal = refusal(kind, Duration::from_millis(millis));
            refusal.write(&statuses, None, &mut response);
            assert_eq!(response.status(), status, "{kind:?}");
            assert_eq!(header(&response, "retry-after"), back, "{kind:?}");
            assert_eq!(header(&response, "x-envoy-overloaded"), envoy, "{kind:?}");
            let field = "stage=\"run_queue\", predicted=900";
            assert_eq!(header(&response, "seawall"), Some(field));
        }
    }

    #[test]
    fn who_does_not_wait_any_more_is_not_told_to_come_back() {
        let micros = Duration::from_micros;
        let mut news = fields::Response::default();
        news.queue = Some(micros(850));
        let field = "stage=\"run_queue\", predicted=900, queue=850";
        let grpc = HeaderValue::from_static("application/grpc");
        for grpc in [None, Some(&grpc)] {
            let hint = grpc.map_or("retry-after", |_| "grpc-retry-pushback-ms");
            let told = |is_late, is_theirs| {
                let rejected = Rejected::new(Stage::RUN_QUEUE, micros(900), Duration::ZERO);
                let rejected = rejected.with_retry_after(micros(7_000));
                let name = Name::lossy("run_queue");
                let refusal = Refusal::new(&rejected, is_late, name, &news, 0.5);
                let mut response = Response::new(());
                if is_theirs {
                    refusal.amend(response.headers_mut(), grpc.is_some());
                } else {
                    refusal.write(&Statuses::default(), grpc, &mut response);
                }
                let text = |name| header(&response, name).map(str::to_owned);
                (text("seawall"), text(hint))
            };
            for is_theirs in [false, true] {
                assert_eq!(told(true, is_theirs), (Some(field.into()), None));
                let (told, hint) = told(false, is_theirs);
                assert_eq!(told, Some(format!("{field}, retry-after=7000")));
                assert_eq!(hint.as_deref(), Some(if grpc.is_some() { "11" } else { "1" }));
            }
        }
    }

    #[test]
    fn grpc_has_trailers_only() {
        let kind = HeaderValue::from_static("application/grpc+proto");
        for (refused, status, pushback) in [
            (Kind::Overload, "14", Some("3")),
            (Kind::Quota, "8", Some("3")),
            (Kind::Expired, "4", None),
            (Kind::Unidentified, "16", None),
        ] {
            let mut response = Response::builder().status(503).body(()).unwrap();
            let refusal = refusal(refused, Duration::from_micros(2_001));
            refusal.write(&Statuses::default(), Some(&kind), &mut response);
            assert_eq!(
                (response.status().as_u16(), header(&response, "grpc-status")),
                (200, Some(status))
            );
            assert_eq!(header(&response, "grpc-retry-pushback-ms"), pushback);
            assert_eq!(header(&response, "content-type"), Some("application/grpc+proto"));
            assert_eq!(Said::by(&response), Said::by_trailers(response.headers()));
            assert!(is_trailers_only(response.headers()));
        }
    }

    #[test]
    fn what_the_service_says_is_understood() {
        let rejected = Rejected::new(Stage(17), Duration::from_micros(5), Duration::MAX)
            .with_retry_after(Duration::from_micros(7));
        let response: Response<()> = Refused(rejected).response();
        assert_eq!(Said::by(&response), Said::Refused(rejected));

        let mut response = Response::new(());
        write_field(response.headers_mut(), &field_of(&rejected));
        let mut theirs = Theirs::default();
        assert_eq!(Said::by(&response), Said::RefusedBehind(rejected, theirs));
        let mut field = field_of(&rejected);
        field.stage = Name::new("lock:orders");
        write_field(response.headers_mut(), &field);
        let mut there = rejected;
        there.stage = Stage::HANDLER;
        theirs.name = field.stage;
        assert_eq!(Said::by(&response), Said::RefusedBehind(there, theirs));
        theirs.is_late = true;
        response.headers_mut().insert(GRPC_STATUS, HeaderValue::from_static("4"));
        assert_eq!(Said::by(&response), Said::RefusedBehind(there, theirs));
        response.headers_mut().remove(GRPC_STATUS);
        *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
        assert_eq!(Said::by(&response), Said::RefusedBehind(there, theirs));

        let say = |status, grpc| {
            let response = Response::builder().status(status).header("grpc-status", grpc);
            Said::by(&response.body(()).unwrap())
        };
        assert_eq!((say(200, "0"), say(404, "5")), (Said::Served, Said::Served));
        assert_eq!((say(500, "0"), say(200, "13")), (Said::Failed, Said::Failed));
    }
}
