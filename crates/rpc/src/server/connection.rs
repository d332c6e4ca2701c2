//! One connection: reads frames, lets admission judge them, and writes replies in as few writes as
//! it can.
//!
//! One driver does both directions, in turns: read what there is, then answer what is ready. All
//! replies that are ready at once leave in one write and carry one window (Breakwater's lazy
//! distribution).

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use seawall_control::Instant;
use seawall_control::request::RefusalReason;
use seawall_control::trust::Peer;
use seawall_control::wire::{self, RequestOp, ResponseOp};

use super::Shared;
use super::books::Books;
use super::close::CloseReason;
use super::job::{Call, Reply};
use super::stats::add;
use crate::clock;
use crate::net::{FrameBytes, FrameReader, OutBuffer, Stream, Written, poll_again};

/// Reads that one turn takes before it answers: a connection with much to say waits for its next
/// turn.
const READS_PER_TURN: usize = 4;

/// Largest body of a hello, in bytes: a name, a token, and room for entries to come.
const HELLO_MAX: u32 = 16 << 10;

/// How long a closing connection may take to read why it is closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// How long more than `limits.unread_bytes` may wait for a client. The replies to calls that are
/// already in the server may be more than that, and a client that reads takes them in less time.
const SURPLUS: Duration = Duration::from_secs(1);

/// Bytes that one read takes. The buffer is the thread's, not the connection's.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    static READ_BUFFER: std::cell::RefCell<Vec<u8>> =
        std::cell::RefCell::new(vec![0; READ_BYTES]);
}

/// Tells a client why there is no session for it.
pub(super) async fn turn_away(stream: Stream, reason: &CloseReason, shared: &Shared) {
    tracing::warn!(%reason, "closing a connection");
    farewell(stream, OutBuffer::default(), reason, shared).await;
}

/// Drives one connection until it ends.
///
/// It was accepted at `opened`; `certificate` holds the names that its client proved.
pub(super) async fn drive(
    stream: Stream,
    certificate: Vec<String>,
    opened: Instant,
    books: Books,
    shared: Arc<Shared>,
) {
    let mut connection = Connection::new(books, certificate, opened, shared, stream);
    let reason = poll_fn(|cx| connection.poll(cx)).await;
    connection.answer();
    let Connection { stream, out, books, peer, shared, .. } = connection;
    let (peer, outstanding) = (peer.map_or(String::new(), |peer| peer.name), books.in_flight());
    drop(books); // before the farewell, which may take its time
    if reason.is_notable() {
        tracing::warn!(%reason, peer, outstanding, "closing a connection");
    } else {
        tracing::debug!(%reason, peer, outstanding, "connection closed");
    }
    if reason.can_be_told() {
        farewell(stream, out, &reason, &shared).await;
    } else {
        shared.counters.closed(&reason);
    }
}

/// Ends the stream in order. A client at fault is told why, behind what it was to be told already,
/// if it reads it soon.
async fn farewell(mut stream: Stream, mut out: OutBuffer, reason: &CloseReason, shared: &Shared) {
    shared.counters.closed(reason);
    if reason.is_notable() {
        let body = Bytes::from(reason.to_string());
        send(&mut out, wire::Response::new(ResponseOp::Goaway), body);
    }
    let mut written = Written::default();
    let say = poll_fn(|cx| {
        std::task::ready!(out.poll_flush(&mut stream, cx, &mut written))?;
        std::task::ready!(stream.poll_shutdown(cx))?;
        // Reading what is still on its way keeps the kernel from resetting the connection before
        // the peer has read the reason.
        for _ in 0..READS_PER_TURN {
            let read = READ_BUFFER.with_borrow_mut(|ignored| stream.poll_read(cx, ignored));
            if std::task::ready!(read)?.len == 0 {
                return Poll::Ready(std::io::Result::Ok(()));
            }
        }
        poll_again(cx);
        Poll::Pending
    });
    let _ = tokio::time::timeout(FAREWELL, say).await;
    add(&shared.counters.bytes_sent, written.bytes);
    add(&shared.counters.writes, written.writes);
}

struct Connection {
    stream: Stream,
    shared: Arc<Shared>,
    books: Books,
    certificate: Vec<String>,
    /// Who the client is; nobody until its hello.
    peer: Option<Peer>,
    reader: FrameReader,
    out: OutBuffer,
    violations: u32,
    /// When the connection was accepted.
    opened: Instant,
    /// Since when the client owes the rest of a frame.
    frame_since: Option<Instant>,
    /// Since when the client has read nothing of what waits for it.
    write_since: Option<Instant>,
    /// Since when more waits for the client than should.
    surplus_since: Option<Instant>,
    /// The client said goodbye.
    client_leaves: bool,
    /// The client was told to leave.
    told_to_leave: bool,
}

impl Connection {
    fn new(
        books: Books,
        certificate: Vec<String>,
        opened: Instant,
        shared: Arc<Shared>,
        stream: Stream,
    ) -> Self {
        Self {
            stream,
            books,
            certificate,
            peer: None,
            reader: FrameReader::default(),
            out: OutBuffer::default(),
            violations: 0,
            opened,
            frame_since: None,
            write_since: None,
            surplus_since: None,
            client_leaves: false,
            told_to_leave: false,
            shared,
        }
    }

    /// One turn: read, answer, write.
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<CloseReason> {
        self.books.session.register(cx.waker());
        match self.turn(cx) {
            Ok(ControlFlow::Continue(())) => Poll::Pending,
            Ok(ControlFlow::Break(reason)) | Err(reason) => Poll::Ready(reason),
        }
    }

    fn turn(&mut self, cx: &mut TaskContext<'_>) -> Result<ControlFlow<CloseReason>, CloseReason> {
        let mut unread = true; // until a read finds nothing
        for _ in 0..READS_PER_TURN {
            if !self.may_read() {
                break;
            }
            unread = self.read(cx)?;
            if !unread {
                break;
            }
            // A refusal does not wait for what else there is to read: its client can do something
            // about it now.
            if self.books.has_refusals() {
                self.answer();
                self.write(cx)?;
            }
        }
        self.answer();
        self.write(cx)?;
        if unread {
            // What the client owes may have come already.
            self.frame_since = self.frame_since.map(|_| clock::now());
            if self.may_read() {
                poll_again(cx);
            }
        }
        if self.books.session.is_leaving() && !self.told_to_leave {
            self.told_to_leave = true;
            self.goaway(&CloseReason::Shutdown.to_string());
            self.write(cx)?;
        }
        if self.client_leaves && self.books.in_flight() == 0 && self.out.is_empty() {
            return Ok(ControlFlow::Break(CloseReason::Left));
        }
        self.check_deadlines(clock::now())?;
        Ok(ControlFlow::Continue(()))
    }

    /// A client that does not read what it asked for is not read from either.
    fn may_read(&self) -> bool {
        self.out.len() < self.shared.config.limits.unread_bytes / 2
    }

    /// Reads once; true if there was something.
    fn read(&mut self, cx: &mut TaskContext<'_>) -> Result<bool, CloseReason> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let read = match self.stream.poll_read(cx, buffer) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(read)) if read.len > 0 => read,
                // How the stream of a client that said goodbye ends does not matter any more.
                Poll::Ready(Err(error)) if !self.client_leaves => return Err(error.into()),
                Poll::Ready(_) => {
                    let left = self.books.in_flight() == 0 && !self.reader.is_waiting();
                    return Err(if left { CloseReason::Left } else { CloseReason::Gone });
                }
            };
            add(&self.shared.counters.bytes_received, read.len as u64);
            if self.client_leaves {
                // Nothing may follow a goodbye; it is read to learn when the client is gone.
                return Ok(true);
            }
            let now = clock::now(); // for all frames of this read
            let received_ns = clock::realtime_ns();
            let mut input = &buffer[..read.len];
            let mut newest_sent_at = 0;
            while !self.client_leaves
                && let Some((frame, bytes)) = self.reader.next(&mut input, self.body_max())?
            {
                self.frame(&frame, &bytes, (now, read.waited))?;
                newest_sent_at =
                    if frame.op == RequestOp::Call { frame.claims.sent_at_ns } else { 0 };
            }
            self.books.heard(now, newest_sent_at, received_ns, read.waited);
            self.frame_since =
                if self.reader.is_waiting() { self.frame_since.or(Some(now)) } else { None };
            Ok(true)
        })
    }

    /// The largest body that the next frame may have: a stranger's hello is small.
    fn body_max(&self) -> u32 {
        let body_max = self.shared.config.limits.body_bytes;
        if self.peer.is_some() { body_max } else { body_max.min(HELLO_MAX) }
    }

    fn frame(
        &mut self,
        frame: &wire::Request,
        bytes: &FrameBytes<'_>,
        arrival: (Instant, Duration),
    ) -> Result<(), CloseReason> {
        // Whatever the read brings behind this frame has only just begun.
        self.frame_since = None;
        match (frame.op, &self.peer) {
            (RequestOp::Hello, None) => self.hello(bytes.as_slice()),
            (RequestOp::Hello, Some(_)) => Err(CloseReason::Unexpected("a second hello")),
            (_, None) => Err(CloseReason::Unexpected("the first frame was not a hello")),
            (RequestOp::Call, Some(_)) => self.call(*frame, bytes, arrival),
            (RequestOp::Demand, Some(_)) => {
                let admission = &self.shared.admission;
                admission.tell_demand(self.books.session.id, frame.demand, frame.window_ack);
                Ok(())
            }
            (RequestOp::Cancel, Some(_)) => {
                self.books.cancel(frame.claims.id);
                Ok(())
            }
            (RequestOp::Goodbye, Some(_)) => {
                self.client_leaves = true;
                Ok(())
            }
        }
    }

    fn hello(&mut self, bytes: &[u8]) -> Result<(), CloseReason> {
        let hello = wire::Hello::decode(&bytes[wire::HEADER_LEN..])?;
        let trust = &self.shared.config.trust;
        let peer = trust.identify(hello.token.as_deref(), &self.certificate);
        let peer = peer.ok_or(CloseReason::Unidentified)?;
        tracing::debug!(client = hello.name, peer = peer.name, "session opened");
        self.books.identify(peer.identity);
        if !hello.spills {
            self.books.spill(); // at most once
        }
        self.peer = Some(peer);
        let body = Bytes::from(self.shared.settings().encode());
        send(&mut self.out, wire::Response::new(ResponseOp::Settings), body);
        Ok(())
    }

    fn call(
        &mut self,
        mut frame: wire::Request,
        bytes: &FrameBytes<'_>,
        (now, waited): (Instant, Duration),
    ) -> Result<(), CloseReason> {
        let layout = frame.layout(bytes.as_slice())?;
        if self.books.is_running(frame.claims.id) {
            return Err(CloseReason::Unexpected("a call whose id is already in use"));
        }
        let Shared { admission, router, queue, counters, config, .. } = &*self.shared;
        let peer = self.peer.as_ref().expect("calls come after the hello");
        if frame.extension {
            frame.read_extension(&bytes.as_slice()[layout.extension.clone()])?;
        }
        let struck_out = peer.strike_out(&mut frame.claims);
        add(&counters.privilege_violations, u64::from(struck_out.privilege));
        if struck_out.hint {
            add(&counters.hints_distrusted, 1);
            self.books.page().inspect(|page| page.on_hint_distrusted());
        }
        let id = frame.claims.id;
        match self.books.arrive(now, &frame, waited) {
            Ok(context) => {
                let payload = bytes.slice(layout.payload);
                self.books.keep(id, false, || payload.clone());
                let call = Call::new(context, self.books.session.clone());
                let job = router.job(call, payload, admission, queue);
                self.books.run(now, id, job);
            }
            Err(RefusalReason::WindowExceeded) => {
                self.violations += 1;
                if self.violations > config.limits.violations {
                    return Err(CloseReason::Violations);
                }
            }
            Err(_) => self.books.keep(id, true, || bytes.slice(layout.payload)),
        }
        Ok(())
    }

    /// Turns all replies that are ready into frames that carry the same news. Without replies the
    /// news are a frame of their own.
    fn answer(&mut self) {
        let Some((news, replies)) = self.books.settle() else { return };
        let credit = replies.as_slice().is_empty().then(|| {
            add(&self.shared.counters.credit_messages, 1);
            (wire::Response::new(ResponseOp::Credit), Bytes::new())
        });
        for (mut frame, body) in replies.map(Reply::frame).chain(credit) {
            frame.feedback = news.feedback;
            frame.queue_delay = news.queue_delay;
            send(&mut self.out, frame, body);
        }
    }

    fn goaway(&mut self, reason: &str) {
        let body = Bytes::copy_from_slice(reason.as_bytes());
        send(&mut self.out, wire::Response::new(ResponseOp::Goaway), body);
    }

    fn write(&mut self, cx: &mut TaskContext<'_>) -> Result<(), CloseReason> {
        if self.out.is_empty() {
            return Ok(());
        }
        let mut written = Written::default();
        let flushed = self.out.poll_flush(&mut self.stream, cx, &mut written);
        add(&self.shared.counters.bytes_sent, written.bytes);
        add(&self.shared.counters.writes, written.writes);
        match flushed {
            Poll::Ready(flushed) => {
                flushed?;
                self.write_since = None;
            }
            Poll::Pending if written.bytes > 0 => self.write_since = Some(clock::now()),
            Poll::Pending => self.write_since = self.write_since.or(Some(clock::now())),
        }
        self.surplus_since = if self.out.len() > self.shared.config.limits.unread_bytes {
            self.surplus_since.or(Some(clock::now()))
        } else {
            None
        };
        Ok(())
    }

    /// Ends the connection if the peer took too long, else tells the sweeper when to look again.
    fn check_deadlines(&mut self, now: Instant) -> Result<(), CloseReason> {
        let limits = &self.shared.config.limits;
        let hello = self.peer.is_none().then_some(self.opened + limits.hello_timeout);
        let frame = self.frame_since.map(|since| since + limits.frame_timeout);
        let write = self.write_since.map(|since| since + limits.write_timeout);
        let surplus = self.surplus_since.map(|since| since + SURPLUS);
        let passed = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if passed(hello) {
            return Err(CloseReason::HelloTimeout);
        }
        if passed(frame) {
            return Err(CloseReason::FrameTimeout);
        }
        if passed(write) || passed(surplus) {
            return Err(CloseReason::NotReading);
        }
        let next = [hello, frame, write, surplus].into_iter().flatten().min();
        self.books.session.set_deadline(next.unwrap_or(Instant::NEVER));
        Ok(())
    }
}

fn send(out: &mut OutBuffer, mut frame: wire::Response, body: Bytes) {
    frame.body_len = body.len() as u32;
    out.push(&frame.encode(), body);
}
