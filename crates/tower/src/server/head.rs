//! What the headers of a request say.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use seawall_control::fields::{self, Reading, timeout};
use seawall_control::request::Claims;
use seawall_control::trust::{Peer, StruckOut};

use super::context::Deadlines;
use super::sessions::Owner;
use crate::clock;
use crate::headers::{ENVOY_TIMEOUT, GRPC_TIMEOUT, SEAWALL, envoy_timeout, grpc_type, lines};

pub(super) const ORCA_FORMAT: HeaderName = HeaderName::from_static("endpoint-load-metrics-format");

/// All that the headers of a request say.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Told {
    /// Seawall's own field.
    pub fields: fields::Request,
    /// The client sent the field: it wants one back.
    pub speaks: bool,
    /// Keys, values and deadlines that were not understood.
    pub ignored: u32,
    /// The field is none.
    pub malformed: bool,
    /// The least of all deadlines.
    pub deadline: Option<Duration>,
    /// Who told one.
    pub deadlines: Deadlines,
    /// The type of the content, if it is gRPC's.
    pub grpc: Option<HeaderValue>,
    /// A report of load is asked for.
    pub orca: bool,
}

impl Told {
    /// Reads the headers of a request.
    pub fn read(headers: &HeaderMap) -> Self {
        let mut told = Self { orca: headers.contains_key(ORCA_FORMAT), ..Self::default() };
        if headers.contains_key(SEAWALL) {
            let Reading { fields, ignored, malformed } = fields::Request::read(lines(headers));
            told.deadlines.field = fields.deadline.is_some();
            (told.fields, told.ignored, told.malformed) = (fields, ignored, malformed);
            told.speaks = true;
        }
        let grpc = told.read_time(headers, &GRPC_TIMEOUT, timeout::parse);
        let envoy = told.read_time(headers, &ENVOY_TIMEOUT, envoy_timeout);
        (told.deadlines.grpc, told.deadlines.envoy) = (grpc.is_some(), envoy.is_some());
        told.deadline = [told.fields.deadline, grpc, envoy].into_iter().flatten().min();
        told.grpc = grpc_type(headers).cloned();
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

    /// The claims of the request, as far as its sender is believed, and which were not.
    pub fn claims(&self, sender: &Peer) -> (Claims, StruckOut) {
        let realtime = self.fields.age.map_or(0, |_| clock::realtime_ns());
        let mut claims = self.fields.claims(realtime);
        claims.deadline = self.deadline;
        let struck = sender.strike_out(&mut claims);
        (claims, struck)
    }

    /// Whose credits it uses, if it names itself; `known` is its number among the known
    /// [senders](super::parts::Senders).
    pub fn owner(&self, known: Option<usize>) -> Option<Owner> {
        self.fields.client.map(|client| (client, known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_control::trust::Trust;

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
        let envoys = ["-1", "+1", "", "0"].map(|bad| (ENVOY_TIMEOUT, bad));
        for bad in envoys.into_iter().chain([(GRPC_TIMEOUT, "200")]) {
            let told = read(std::slice::from_ref(&bad));
            assert_eq!((told.deadline, told.ignored), (None, 1), "{bad:?}");
            assert_eq!(told.deadlines, Deadlines::default());
        }
        assert!(read(&[(SEAWALL, "no dictionary")]).malformed);
    }

    #[test]
    fn what_a_stranger_claims_does_not_count() {
        let told =
            read(&[(SEAWALL, "priority=0, hops=3, attempt=2, deadline=7"), (GRPC_TIMEOUT, "5u")]);
        let stranger = Trust::default().peer(None).unwrap();
        let (claims, struck) = told.claims(&stranger);
        assert!(struck.privilege && struck.hint);
        let deadline = Some(Duration::from_micros(5));
        assert_eq!(claims, Claims { attempt: 2, deadline, ..Claims::default() });
        assert_eq!(told.owner(None), None);
    }
}
