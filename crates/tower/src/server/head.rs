//! What the headers of a request say.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use seawall_control::fields::{self, Reading, timeout};

use super::context::Deadlines;

pub(crate) const SEAWALL: HeaderName = HeaderName::from_static(fields::NAME);
pub(crate) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static(timeout::NAME);
pub(crate) const ENVOY_TIMEOUT: HeaderName =
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("seawall-token");
pub(super) const ORCA_FORMAT: HeaderName = HeaderName::from_static("endpoint-load-metrics-format");

/// All that was said.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) fields: fields::Request,
    /// The client sent the field: it wants one back.
    pub(super) speaks: bool,
    /// What was not understood.
    pub(super) ignored: u32,
    pub(super) malformed: bool,
    /// The least of all deadlines.
    pub(super) deadline: Option<Duration>,
    pub(super) deadlines: Deadlines,
    /// The type of the content, if it is gRPC's.
    pub(super) grpc: Option<HeaderValue>,
    /// A report of load is asked for.
    pub(super) orca: bool,
}

impl Told {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let mut told = Self { orca: headers.contains_key(ORCA_FORMAT), ..Self::default() };
        let lines = headers.get_all(SEAWALL);
        if lines.iter().next().is_some() {
            let lines = lines.iter().map(HeaderValue::as_bytes);
            let Reading { fields, ignored, malformed } = fields::Request::read(lines);
            told.deadlines.field = fields.deadline.is_some();
            (told.fields, told.ignored, told.malformed) = (fields, ignored, malformed);
            told.speaks = true;
        }
        let grpc = told.read_time(headers, &GRPC_TIMEOUT, timeout::parse);
        let envoy = told.read_time(headers, &ENVOY_TIMEOUT, milliseconds);
        (told.deadlines.grpc, told.deadlines.envoy) = (grpc.is_some(), envoy.is_some());
        told.deadline = [told.fields.deadline, grpc, envoy].into_iter().flatten().min();
        let is_grpc = |kind: &&HeaderValue| kind.as_bytes().starts_with(b"application/grpc");
        told.grpc = headers.get(CONTENT_TYPE).filter(is_grpc).cloned();
        told
    }

    fn read_time(
        &mut self,
        headers: &HeaderMap,
        name: &HeaderName,
        read: impl Fn(&[u8]) -> Option<Duration>,
    ) -> Option<Duration> {
        let time = read(headers.get(name)?.as_bytes());
        self.ignored += u32::from(time.is_none());
        time
    }
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()?;
    Some(Duration::from_millis(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(HeaderName, &'static str)]) -> Told {
        let value = |text| HeaderValue::from_static(text);
        Told::read(&headers.iter().map(|(name, text)| (name.clone(), value(text))).collect())
    }

    #[test]
    fn the_least_of_three_deadlines_counts() {
        let ms = Duration::from_millis;
        let three = [(SEAWALL, "deadline=250000"), (GRPC_TIMEOUT, "200m"), (ENVOY_TIMEOUT, "300")];
        assert_eq!(read(&three).deadline, Some(ms(200)));
        assert_eq!(read(&three[..1]).deadline, Some(ms(250)));
        let envoy = read(&three[2..]);
        assert_eq!(envoy.deadline, Some(ms(300)));
        assert_eq!(envoy.deadlines, Deadlines { envoy: true, ..Deadlines::default() });
        assert_eq!((read(&[]).deadline, read(&[]).speaks), (None, false));
    }

    #[test]
    fn what_is_no_deadline_is_ignored_and_counted() {
        for bad in [(GRPC_TIMEOUT, "200"), (ENVOY_TIMEOUT, "-1"), (ENVOY_TIMEOUT, "")] {
            let told = read(std::slice::from_ref(&bad));
            assert_eq!((told.deadline, told.ignored), (None, 1), "{bad:?}");
            assert_eq!(told.deadlines, Deadlines::default());
        }
        assert!(read(&[(SEAWALL, "no dictionary")]).malformed);
    }

    #[test]
    fn grpc_is_known_by_its_content() {
        assert!(read(&[(CONTENT_TYPE, "application/grpc+proto")]).grpc.is_some());
        assert!(read(&[(CONTENT_TYPE, "application/json")]).grpc.is_none());
    }
}
