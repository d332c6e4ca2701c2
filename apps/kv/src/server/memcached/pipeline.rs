//! Commands of one connection that are not answered yet, each at its place in their order.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::footprint::Footprint;
use crate::protocol::response::Reply;
use crate::protocol::{Command, REPLY_BYTES_MAX};

/// Longest reply, in bytes, apart from values. `stats slabs` of 64 classes comes closest.
const OVERHEAD_BYTES: usize = 32 << 10;

/// Places kept for the next commands when the last reply is gone. More are given back, because most
/// connections are idle most of the time.
const PLACES_KEPT: usize = 4;

/// The places. The id of a command counts the commands of its connection from zero.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    places: VecDeque<Place>,
    /// Id of the command at the front.
    first: u64,
    /// Most bytes that the replies of running commands can have.
    running_bytes: usize,
    /// Bytes of replies that wait for those before them.
    ready_bytes: usize,
}

#[derive(Debug)]
enum Place {
    Running(Running),
    Ready(Bytes),
}

/// A command that was submitted, or is about to be.
#[derive(Debug)]
pub(super) struct Running {
    footprint: Footprint,
    reply_bytes_max: usize,
    noreply: bool,
}

/// How a submitted command ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With this reply, empty if none is wanted.
    Done(Bytes),
    /// Refused, without effect.
    Overloaded,
    /// By a defect.
    Failed,
}

impl Running {
    /// What has to be known of `command` while it runs, in a store of items up to `item_bytes_max`.
    pub(super) fn new(command: &Command, item_bytes_max: usize) -> Self {
        let values = match command {
            Command::Get { keys, .. } | Command::Gat { keys, .. } => keys.iter().count(),
            _ => 0,
        };
        let reply_bytes_max = values.saturating_mul(item_bytes_max).min(REPLY_BYTES_MAX);
        Self {
            footprint: Footprint::of(command),
            reply_bytes_max: reply_bytes_max + OVERHEAD_BYTES,
            noreply: command.noreply(),
        }
    }
}

impl Pipeline {
    /// Takes a place for a command that is submitted now, and gives its id.
    pub(super) fn start(&mut self, running: Running) -> u64 {
        self.running_bytes += running.reply_bytes_max;
        self.places.push_back(Place::Running(running));
        self.first + self.places.len() as u64 - 1
    }

    /// Takes a place for a request that is answered already.
    pub(super) fn answer(&mut self, reply: Bytes) {
        self.ready_bytes += reply.len();
        self.places.push_back(Place::Ready(reply));
    }

    /// The command `id` has ended.
    pub(super) fn finish(&mut self, id: u64, outcome: Outcome) {
        let place = &mut self.places[(id - self.first) as usize];
        let Place::Running(running) = place else { unreachable!("a command ends once") };
        self.running_bytes -= running.reply_bytes_max;
        let reply = match outcome {
            Outcome::Done(reply) => reply,
            _ if running.noreply => Bytes::new(),
            Outcome::Overloaded => line(Reply::Overloaded),
            Outcome::Failed => line(Reply::Failed),
        };
        self.ready_bytes += reply.len();
        *place = Place::Ready(reply);
    }

    /// Takes the reply of the command at the front, if it has ended.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let Some(Place::Ready(_)) = self.places.front() else { return None };
        let Some(Place::Ready(reply)) = self.places.pop_front() else { return None };
        self.first += 1;
        self.ready_bytes -= reply.len();
        if self.places.is_empty() {
            self.places.shrink_to(PLACES_KEPT);
        }
        Some(reply)
    }

    /// True when a command has to wait for one before it.
    pub(super) fn holds_back(&self, command: &Running) -> bool {
        let fits = self.running_bytes == 0
            || self.running_bytes + command.reply_bytes_max <= REPLY_BYTES_MAX;
        let conflicts = |place: &Place| match place {
            Place::Running(earlier) => earlier.footprint.conflicts_with(&command.footprint),
            Place::Ready(_) => false,
        };
        !fits || self.places.iter().any(conflicts)
    }

    /// Commands without a reply on its way.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// True when all commands are answered.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of replies that wait for those before them.
    pub(super) fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }
}

/// A reply that stands for itself.
pub(super) fn line(reply: Reply) -> Bytes {
    let mut out = BytesMut::new();
    reply.write(&mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Parser;

    fn running(line: &str) -> Running {
        let mut input = BytesMut::from(format!("{line}\r\n").as_str());
        let command = Parser::new(100).next(&mut input).unwrap().unwrap();
        Running::new(&command, 1 << 20)
    }

    fn drain(pipeline: &mut Pipeline) -> Vec<Bytes> {
        std::iter::from_fn(|| pipeline.pop()).collect()
    }

    #[test]
    fn replies_leave_in_the_order_of_requests() {
        let mut pipeline = Pipeline::default();
        let ids = ["get a", "get b", "delete c noreply"].map(|line| pipeline.start(running(line)));
        pipeline.answer("ERROR".into());
        pipeline.finish(ids[1], Outcome::Done("b".into()));
        assert!(drain(&mut pipeline).is_empty());
        assert_eq!((pipeline.len(), pipeline.ready_bytes()), (4, 6));
        pipeline.finish(ids[0], Outcome::Done("a".into()));
        assert_eq!(drain(&mut pipeline), ["a", "b"]);
        pipeline.finish(ids[2], Outcome::Overloaded);
        assert_eq!(drain(&mut pipeline), ["", "ERROR"]);
        assert!(pipeline.is_empty());
        assert_eq!((pipeline.ready_bytes, pipeline.running_bytes), (0, 0));

        let next = pipeline.start(running("get d"));
        assert_eq!(next, 4);
        pipeline.finish(next, Outcome::Overloaded);
        assert_eq!(drain(&mut pipeline), ["SERVER_ERROR overloaded\r\n"]);
    }

    #[test]
    fn a_command_waits_for_those_that_it_conflicts_with() {
        let mut pipeline = Pipeline::default();
        let set = pipeline.start(running("set a 0 0 1 noreply\r\nx"));
        assert!(pipeline.holds_back(&running("get a")));
        assert!(!pipeline.holds_back(&running("get b")));
        pipeline.finish(set, Outcome::Done(Bytes::new()));
        assert!(!pipeline.holds_back(&running("get a")));
    }

    #[test]
    fn replies_that_may_come_together_are_bounded() {
        let mut pipeline = Pipeline::default();
        let lookup = |keys| running(&format!("get {}", "k ".repeat(keys)));
        let large = pipeline.start(lookup(1000));
        assert!(pipeline.holds_back(&lookup(1)));
        pipeline.finish(large, Outcome::Done(Bytes::new()));
        for _ in 0..62 {
            assert!(!pipeline.holds_back(&lookup(1)));
            pipeline.start(lookup(1));
        }
        assert!(pipeline.holds_back(&lookup(1)), "63 MiB and what stands around the values");
    }
}
