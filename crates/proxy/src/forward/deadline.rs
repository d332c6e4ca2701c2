//! How much time a request has left; it only ever shrinks.

use std::time::Duration;

use hyper::header::HeaderMap;
use seawall_control::{Instant, fields};
use seawall_tower::headers::write_field;
use seawall_tower::server::Deadlines;
use seawall_tower::server::parts::Told;

use crate::config;

/// When a request is worthless, and who said so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    told: Deadlines,
}

impl Deadline {
    /// That of a request that arrived at `now`, bounded by its route.
    pub(super) fn of(told: &Told, route: &config::Route, now: Instant) -> Self {
        let left = match (told.deadline, route.deadline_max) {
            (Some(left), Some(most)) => Some(left.min(most)),
            (None, Some(most)) => Some(route.deadline.unwrap_or(most).min(most)),
            (brought, None) => brought.or(route.deadline),
        };
        let at = left.map_or(Instant::NEVER, |left| now + left);
        Self { at, told: told.deadlines }
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
        self.told.write(left, headers);
        if self.told.field {
            let mut own = *own;
            own.deadline = Some(left);
            write_field(headers, &own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use seawall_tower::headers::{ENVOY_TIMEOUT, GRPC_TIMEOUT};

    #[test]
    fn the_least_counts_and_the_route_bounds_it() {
        let mut headers = HeaderMap::new();
        headers.insert(GRPC_TIMEOUT, HeaderValue::from_static("300m"));
        headers.insert(ENVOY_TIMEOUT, HeaderValue::from_static("200"));
        let now = Instant::from_micros(5);
        let ms = Duration::from_millis;
        let left = |headers: &HeaderMap, deadline, deadline_max| {
            let route = config::Route { deadline, deadline_max, ..config::Route::default() };
            Deadline::of(&Told::read(headers), &route, now).left(now)
        };
        assert_eq!(left(&headers, None, None), Some(ms(200)));
        assert_eq!(left(&headers, Some(ms(50)), None), Some(ms(200)), "what is brought counts");
        assert_eq!(left(&headers, None, Some(ms(70))), Some(ms(70)));
        let none = HeaderMap::new();
        assert_eq!(left(&none, None, None), None);
        assert_eq!(left(&none, Some(ms(50)), Some(ms(70))), Some(ms(50)));
        assert_eq!(left(&none, None, Some(ms(70))), Some(ms(70)));

        let own = fields::Request::default();
        let deadline = Deadline::of(&Told::read(&headers), &config::Route::default(), now);
        let later = now + ms(150);
        deadline.write(&mut headers, &own, later);
        assert_eq!(headers[GRPC_TIMEOUT], "50000000n");
        assert_eq!(headers[ENVOY_TIMEOUT], "50");
        assert!(!deadline.is_over(later) && deadline.is_over(now + Duration::from_micros(199_500)));
    }
}
