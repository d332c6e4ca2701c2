//! An algorithm that does what tests say, and keeps books about what it is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use seawall_control::Instant;
use seawall_control::controller::{
    Algorithm, Arrival, ClientController, Completion, Dequeue, Feedback, Init, Outcome,
    ServerController, SessionEvent, SessionId, Verdict,
};
use seawall_control::metrics::Metrics;
use seawall_control::request::{Rejected, Stage};

/// What it says, and what it was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mock(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Refuse all arrivals.
    pub(crate) refuses: bool,
    /// Refuse all dequeues.
    pub(crate) refuses_dequeues: bool,
    /// Arrivals and completions.
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) outcomes: HashMap<&'static str, usize>,
    pub(crate) in_flight: HashMap<SessionId, i64>,
    pub(crate) open: Vec<SessionId>,
}

impl Mock {
    pub(crate) fn books<T>(&self, read: impl FnOnce(&mut Books) -> T) -> T {
        read(&mut self.0.lock().unwrap())
    }

    /// Requests in the server; panics if any session has fewer than none.
    pub(crate) fn in_flight(&self) -> i64 {
        self.books(|books| {
            assert!(books.in_flight.values().all(|count| *count >= 0), "{books:?}");
            books.in_flight.values().sum()
        })
    }
}

impl Algorithm for Mock {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn server(self: Arc<Self>, _: Init) -> Box<dyn ServerController> {
        Box::new(Self::clone(&self))
    }

    fn client(self: Arc<Self>, _: Init) -> Box<dyn ClientController> {
        Box::new(seawall_control::client::Open)
    }
}

impl ServerController for Mock {
    fn on_session(&mut self, _: Instant, session: SessionId, event: SessionEvent) {
        self.books(|books| match event {
            SessionEvent::Opened(_) => books.open.push(session),
            SessionEvent::Closed => {
                assert_eq!(books.in_flight.get(&session).copied().unwrap_or(0), 0);
                books.open.retain(|open| *open != session);
            }
            _ => {}
        });
    }

    fn on_arrival(&mut self, _: Instant, arrival: &Arrival) -> Verdict {
        self.books(|books| {
            assert!(books.open.contains(&arrival.session), "a session is opened before");
            books.arrivals.push(*arrival);
            *books.in_flight.entry(arrival.session).or_default() += 1;
            if books.refuses {
                return Verdict::Refuse(Rejected::overload(Stage::ADMISSION, arrival.queue_delay));
            }
            Verdict::Admit
        })
    }

    fn judges_dequeues(&self) -> bool {
        true
    }

    fn on_dequeue(&mut self, _: Instant, dequeue: &Dequeue) -> Verdict {
        if self.books(|books| books.refuses_dequeues) {
            return Verdict::Refuse(Rejected::overload(Stage::RUN_QUEUE, dequeue.sojourn));
        }
        Verdict::Admit
    }

    fn on_completion(&mut self, _: Instant, completion: &Completion) {
        self.books(|books| {
            books.completions.push(*completion);
            let outcome = match completion.outcome {
                Outcome::Done => "done",
                Outcome::Refused(_) => "refused",
                Outcome::Cancelled => "cancelled",
            };
            *books.outcomes.entry(outcome).or_default() += 1;
            *books.in_flight.entry(completion.session).or_default() -= 1;
        });
    }

    fn feedback(&mut self, _: Instant, _: SessionId) -> Feedback {
        Feedback::Window { size: 3, seq: 7 }
    }

    fn metrics(&self) -> Metrics {
        Metrics::new()
    }
}
