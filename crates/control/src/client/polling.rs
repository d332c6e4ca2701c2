//! A client of a server that speaks only when it is spoken to.

use alloc::boxed::Box;
use core::time::Duration;

use crate::controller::{ClientController, Demand, Departure, Feedback, Init, Response};
use crate::metrics::Metrics;
use crate::random::Rng;
use crate::time::Instant;

/// So many replies in a row that tell nothing come from a server that has no credits to give: it
/// was replaced by one that does not know them, or they were switched off. Enough that some replies
/// of a proxy in between, which makes its own errors, are not taken for that.
const SILENT_REPLIES: u32 = 16;

/// The pause between two questions of a client without credits never exceeds this.
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// Lets requests leave as another controller says, but never waits for a message that no reply
/// carries.
///
/// Over HTTP a server cannot tell a client anything but in its responses, nor can a client tell its
/// demand but with requests. A client whose window is zero, and that has nothing outstanding, would
/// wait for ever. So it *asks*: one request leaves without a credit, as the first of a session does
/// (Breakwater §3). The server has given it a window meanwhile, or refuses it and learns of the
/// demand. What is refused doubles the pause to the next question.
///
/// Deviation: Breakwater's servers send credits to clients that wait (§3.2.2), and nobody asks.
#[derive(Debug)]
pub struct Polling {
    inner: Box<dyn ClientController>,
    rng: Rng,
    rtt: Duration,
    /// How long requests wait for the first reply before they leave without one.
    patience: Duration,
    /// After so long without anything outstanding the server may have forgotten the session.
    idle: Duration,
    /// When the first request of the session left; `None` before it.
    since: Option<Instant>,
    /// A reply has come since then.
    heard: bool,
    last_reply: Instant,
    /// The server has given credits.
    gives_credits: bool,
    /// Replies in a row that told nothing.
    silent: u32,
    /// No question before this.
    ask_at: Instant,
    pause: Duration,
}

impl Polling {
    /// A client whose requests are let go by `inner`. While nothing is known of the server, they
    /// wait for the first reply for `patience`; a session that nothing was outstanding in for
    /// `idle` begins anew.
    pub fn new(
        inner: Box<dyn ClientController>,
        init: Init,
        patience: Duration,
        idle: Duration,
    ) -> Self {
        Self {
            inner,
            rng: Rng::new(init.seed),
            rtt: init.rtt,
            patience,
            idle,
            since: None,
            heard: false,
            last_reply: init.now,
            gives_credits: false,
            silent: 0,
            ask_at: init.now,
            pause: init.rtt,
        }
    }

    /// Nothing may leave yet; but somebody has to ask the server, if nobody has.
    fn held(&mut self, now: Instant, demand: &Demand) -> Departure {
        if self.silent >= SILENT_REPLIES {
            return Departure::Now;
        }
        if !self.heard {
            let first = self.since.unwrap_or(now);
            return if now.since(first) >= self.patience {
                Departure::Now
            } else {
                Departure::At(first + self.patience)
            };
        }
        if demand.outstanding > 0 {
            return Departure::Hold; // its reply tells
        }
        if now < self.ask_at {
            return Departure::At(self.ask_at);
        }
        self.put_off(now);
        Departure::Now
    }

    /// The next question is a pause away: half to one and a half of it, so that clients which were
    /// refused together do not come back together.
    fn put_off(&mut self, now: Instant) {
        let jitter = 0.5 + self.rng.uniform();
        self.ask_at = now + self.pause.mul_f64(jitter);
    }

    fn hear(&mut self, feedback: Feedback) {
        if feedback == Feedback::None {
            self.silent = self.silent.saturating_add(1);
            self.gives_credits &= self.silent < SILENT_REPLIES;
        } else {
            (self.silent, self.gives_credits) = (0, true);
        }
    }
}

impl ClientController for Polling {
    fn on_demand(&mut self, now: Instant, demand: &Demand) -> Departure {
        let said = self.inner.on_demand(now, demand);
        let forgotten =
            self.gives_credits && demand.outstanding == 0 && now.since(self.last_reply) > self.idle;
        // The first one was given up.
        let alone = !self.heard && demand.outstanding == 0;
        match said {
            Departure::Now | Departure::Hold if self.since.is_none() || forgotten || alone => {
                // It registers the session, and its reply tells what others may do.
                (self.since, self.heard) = (Some(now), false);
                Departure::Now
            }
            Departure::Hold => self.held(now, demand),
            // What an earlier session was allowed counts no more.
            Departure::Now if !self.heard && demand.outstanding > 0 => self.held(now, demand),
            other => other,
        }
    }

    fn on_response(&mut self, now: Instant, response: &Response) {
        self.heard = true;
        self.last_reply = now;
        self.hear(response.feedback);
        self.pause = if response.served { self.rtt } else { (self.pause * 2).min(PAUSE_MOST) };
        self.put_off(now);
        self.inner.on_response(now, response);
    }

    fn on_push(&mut self, now: Instant, feedback: Feedback) {
        self.heard = true;
        self.last_reply = now;
        self.hear(feedback);
        self.inner.on_push(now, feedback);
    }

    fn window_ack(&self) -> u32 {
        self.inner.window_ack()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::client::{Credit, Unknown};

    const IDLE: Duration = Duration::from_secs(10);

    fn ms(ms: u64) -> Instant {
        Instant::from_micros(ms * 1_000)
    }

    fn init() -> Init {
        Init { rtt: Duration::from_millis(1), ..Init::new(Instant::ORIGIN, 7) }
    }

    fn unknown() -> Polling {
        Polling::new(Box::new(Unknown::default()), init(), Duration::from_millis(10), IDLE)
    }

    fn asks(client: &mut Polling, at: Instant, outstanding: u32) -> Departure {
        client.on_demand(at, &Demand::new(outstanding))
    }

    fn reply(client: &mut Polling, at: Instant, feedback: Feedback, served: bool) {
        let mut response = Response::new(Duration::ZERO, feedback);
        response.served = served;
        client.on_response(at, &response);
    }

    fn window(size: u32, seq: u32) -> Feedback {
        Feedback::Window { size, seq }
    }

    #[test]
    fn others_wait_for_the_first_reply_but_not_for_ever() {
        let mut client = unknown();
        assert_eq!(asks(&mut client, ms(5), 0), Departure::Now);
        assert_eq!(asks(&mut client, ms(6), 1), Departure::At(ms(15)));
        assert_eq!(asks(&mut client, ms(6), 0), Departure::Now, "nobody waits for it any more");
        assert_eq!(asks(&mut client, ms(16), 1), Departure::Now, "a server that is slow");
        reply(&mut client, ms(20), window(3, 1), true);
        assert_eq!(asks(&mut client, ms(20), 2), Departure::Now);
        assert_eq!(asks(&mut client, ms(20), 3), Departure::Hold);
    }

    #[test]
    fn a_server_without_credits_holds_nothing_back() {
        let mut client = unknown();
        assert_eq!(asks(&mut client, ms(0), 0), Departure::Now);
        reply(&mut client, ms(1), Feedback::None, true);
        for later in [1, 100_000] {
            assert!((0..1_000).all(|out| asks(&mut client, ms(later), out) == Departure::Now));
        }
    }

    #[test]
    fn who_has_no_credit_and_nothing_outstanding_asks_ever_more_seldom() {
        let mut client = unknown();
        let mut now = ms(0);
        assert_eq!(asks(&mut client, now, 0), Departure::Now);
        let mut pauses = Vec::new();
        for seq in 1..14 {
            reply(&mut client, now, window(0, seq), false);
            let Departure::At(at) = asks(&mut client, now, 0) else { panic!("it asks later") };
            pauses.push(at.since(now));
            now = at;
            assert_eq!(asks(&mut client, now, 0), Departure::Now);
            assert_eq!(asks(&mut client, now, 1), Departure::Hold, "one asks, and no other");
        }
        let ms = Duration::from_millis;
        assert!(pauses[0] >= ms(1) && pauses[0] < ms(3), "{pauses:?}");
        assert!(pauses[12] >= PAUSE_MOST / 2 && pauses[12] < PAUSE_MOST * 3 / 2, "{pauses:?}");
        reply(&mut client, now, window(2, 20), true);
        assert_eq!(asks(&mut client, now, 1), Departure::Now, "credits are credits");
    }

    #[test]
    fn a_session_that_may_be_forgotten_begins_anew() {
        let credit = Box::new(Credit::default());
        let mut client = Polling::new(credit, init(), Duration::from_millis(10), IDLE);
        assert_eq!(asks(&mut client, ms(0), 0), Departure::Now);
        reply(&mut client, ms(1), window(8, 1), true);
        assert_eq!(asks(&mut client, ms(10_001), 1), Departure::Now, "it is still known");
        assert_eq!(asks(&mut client, ms(10_002), 0), Departure::Now);
        assert_eq!(asks(&mut client, ms(10_002), 1), Departure::At(ms(10_012)));
        reply(&mut client, ms(10_003), window(4, 2), true);
        assert_eq!(asks(&mut client, ms(10_003), 3), Departure::Now);
        assert_eq!(asks(&mut client, ms(10_003), 4), Departure::Hold);
    }

    #[test]
    fn a_server_that_tells_no_more_windows_has_none() {
        let mut client = unknown();
        assert_eq!(asks(&mut client, ms(0), 0), Departure::Now);
        reply(&mut client, ms(1), window(1, 1), true);
        for _ in 0..SILENT_REPLIES {
            assert_eq!(asks(&mut client, ms(1), 1), Departure::Hold);
            reply(&mut client, ms(1), Feedback::None, true);
        }
        assert_eq!(asks(&mut client, ms(1), 1), Departure::Now);
        client.on_push(ms(2), window(1, 2));
        assert_eq!(asks(&mut client, ms(2), 1), Departure::Hold, "it has them again");
    }
}
