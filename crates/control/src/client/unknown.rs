//! A client of a server whose algorithm it does not know.

use super::Credit;
use crate::controller::{ClientController, Demand, Departure, Feedback, Response};
use crate::metrics::Metrics;
use crate::time::Instant;

/// Keeps to the rules of credits until a reply shows that its server has none (WIRE.md, "What a
/// client does"), so that an older client can use a newer server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown {
    credit: Credit,
    /// Whether the session is under credits, once that is known.
    under_credits: Option<bool>,
}

impl ClientController for Unknown {
    fn on_demand(&mut self, now: Instant, demand: &Demand) -> Departure {
        match self.under_credits {
            Some(false) => Departure::Now,
            _ => self.credit.on_demand(now, demand),
        }
    }

    fn on_response(&mut self, now: Instant, response: &Response) {
        self.on_push(now, response.feedback);
        self.under_credits.get_or_insert(false);
    }

    fn on_push(&mut self, now: Instant, feedback: Feedback) {
        if let Feedback::Window { .. } = feedback {
            self.under_credits = Some(true);
        }
        self.credit.on_push(now, feedback);
    }

    fn window_ack(&self) -> u32 {
        self.credit.window_ack()
    }

    fn metrics(&self) -> Metrics {
        self.credit.metrics()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    /// Whether each of two requests may leave, after one reply that told `feedback`.
    fn after_reply(feedback: Feedback) -> [Departure; 2] {
        let (mut client, now) = (Unknown::default(), Instant::ORIGIN);
        assert_eq!(client.on_demand(now, &Demand::new(0)), Departure::Now);
        assert_eq!(client.on_demand(now, &Demand::new(1)), Departure::Hold);
        client.on_response(now, &Response::new(Duration::ZERO, feedback));
        [0, 1].map(|outstanding| client.on_demand(now, &Demand::new(outstanding)))
    }

    #[test]
    fn the_first_reply_shows_whether_there_are_credits() {
        use Departure::{Hold, Now};
        assert_eq!(after_reply(Feedback::Window { size: 1, seq: 1 }), [Now, Hold]);
        assert_eq!(after_reply(Feedback::Window { size: 0, seq: 0 }), [Hold, Hold]);
        assert_eq!(after_reply(Feedback::None), [Now, Now]);
        assert_eq!(after_reply(Feedback::Level(7)), [Now, Now]);
    }

    #[test]
    fn a_window_binds_from_when_it_comes() {
        let (mut client, now) = (Unknown::default(), Instant::ORIGIN);
        client.on_push(now, Feedback::Window { size: 2, seq: 1 });
        client.on_response(now, &Response::new(Duration::ZERO, Feedback::None));
        client.on_push(now, Feedback::Window { size: 1, seq: 2 });
        assert_eq!(client.on_demand(now, &Demand::new(0)), Departure::Now);
        assert_eq!(client.on_demand(now, &Demand::new(1)), Departure::Hold);
        assert_eq!(client.window_ack(), 2);
    }
}
