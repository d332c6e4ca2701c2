//! How much time a request has left, as others say it; it only ever shrinks.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use seawall_control::Instant;
use seawall_control::fields::{self, timeout};

use crate::config;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static(timeout::NAME);
const ENVOY_TIMEOUT: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

const OWN: HeaderName = HeaderName::from_static(fields::NAME);

/// When a request is worthless, and who said so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    grpc: bool,
    envoy: bool,
    own: bool,
}

impl Deadline {
    /// The least of what a request that arrived at `now` says, bounded by its route.
    pub(super) fn of(
        headers: &HeaderMap,
        own: &fields::Request,
        route: &config::Route,
        now: Instant,
    ) -> Self {
        let grpc = headers.get(GRPC_TIMEOUT).and_then(|value| timeout::parse(value.as_bytes()));
        let envoy = headers.get(ENVOY_TIMEOUT).and_then(|value| milliseconds(value.as_bytes()));
        let brought = [grpc, envoy, own.deadline].into_iter().flatten().min();
        let left = match (brought, route.deadline_max) {
            (Some(left), Some(most)) => Some(left.min(most)),
            (None, Some(most)) => Some(route.deadline.unwrap_or(most).min(most)),
            (brought, None) => brought.or(route.deadline),
        };
        let at = left.map_or(Instant::NEVER, |left| now + left);
        let own = own.deadline.is_some();
        Self { at, grpc: grpc.is_some(), envoy: envoy.is_some(), own }
    }

    /// Time that is left, if there is a bound.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        (self.at != Instant::NEVER).then(|| self.at.since(now))
    }

    /// Whether it has passed, but for what telling it in milliseconds may take. Who serves the
    /// request may know its deadline, too, and let go of it then: that is no loss of a connection.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.left(now).is_some_and(|left| left < Duration::from_millis(1))
    }

    /// Tells the upstream what is left now, in the fields in which it was brought.
    pub(super) fn write(&self, headers: &mut HeaderMap, own: &fields::Request, now: Instant) {
        let Some(left) = self.left(now) else { return };
        if self.grpc
            && let Ok(value) = HeaderValue::try_from(timeout::format(left).to_string())
        {
            headers.insert(GRPC_TIMEOUT, value);
        }
        if self.envoy {
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            headers.insert(ENVOY_TIMEOUT, HeaderValue::from(left));
        }
        if self.own {
            let mut own = *own;
            own.deadline = Some(left);
            write_own(headers, &own);
        }
    }
}

/// Puts the field of Seawall in the place of what is there of it.
pub(super) fn write_own(headers: &mut HeaderMap, own: &fields::Request) {
    match HeaderValue::try_from(own.to_string()) {
        Ok(value) if !value.is_empty() => _ = headers.insert(OWN, value),
        _ => _ = headers.remove(OWN),
    }
}

fn milliseconds(text: &[u8]) -> Option<Duration> {
    // Envoy takes 0 for "no limit".
    number(text).filter(|number| *number > 0).map(Duration::from_millis)
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_counts_and_the_route_bounds_it() {
        let mut headers = HeaderMap::new();
        headers.insert(GRPC_TIMEOUT, HeaderValue::from_static("300m"));
        headers.insert(ENVOY_TIMEOUT, HeaderValue::from_static("200"));
        let now = Instant::from_micros(5);
        let ms = Duration::from_millis;
        let left = |headers: &HeaderMap, deadline, deadline_max| {
            let route = config::Route { deadline, deadline_max, ..config::Route::default() };
            Deadline::of(headers, &fields::Request::default(), &route, now).left(now)
        };
        assert_eq!(left(&headers, None, None), Some(ms(200)));
        assert_eq!(left(&headers, Some(ms(50)), None), Some(ms(200)), "what is brought counts");
        assert_eq!(left(&headers, None, Some(ms(70))), Some(ms(70)));
        let none = HeaderMap::new();
        assert_eq!(left(&none, None, None), None);
        assert_eq!(left(&none, Some(ms(50)), Some(ms(70))), Some(ms(50)));
        assert_eq!(left(&none, None, Some(ms(70))), Some(ms(70)));

        let own = fields::Request::default();
        let deadline = Deadline::of(&headers, &own, &config::Route::default(), now);
        let later = now + ms(150);
        deadline.write(&mut headers, &own, later);
        assert_eq!(headers[GRPC_TIMEOUT], "50000000n");
        assert_eq!(headers[ENVOY_TIMEOUT], "50");
        assert!(!deadline.is_over(later) && deadline.is_over(now + Duration::from_micros(199_500)));
    }
}
