//! One connection: reads commands, submits them, and writes their replies in order.
//!
//! One driver does both directions, in turns: submit what was read, take the replies that are
//! ready, read on if there is room, and write everything at the end of the turn at once.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use seawall_control::Instant;
use seawall_control::request::{self, Rejected};
use seawall_rpc::{Guest, GuestReply, Status, clock};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

use super::Shared;
use super::close::CloseReason;
use super::output::Output;
use super::pipeline::{Outcome, Pipeline, Running, line};
use super::surplus::Surplus;
use crate::native;
use crate::protocol::response::Reply;
use crate::protocol::{self, Command, ParseError, Parser};
use crate::server::clock::unix_time;
use crate::store::Store;

/// Steps that one turn takes before others get theirs, each at most a read and what it brought.
const STEPS_PER_TURN: usize = 8;

/// How long a closing connection goes on to read what its client still sends. Closing at once would
/// make the kernel reset the connection, and lose replies that are on their way.
const FAREWELL: Duration = Duration::from_millis(500);

/// Bytes that one read takes. The buffer is the thread's, not the connection's.
const READ_BYTES: usize = 64 << 10;

/// Bytes that may be read before there is room for the commands in them.
const READ_AHEAD: usize = READ_BYTES;

thread_local! {
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Drives one connection until it ends.
pub(super) async fn drive(guest: Guest, shared: Arc<Shared>) {
    let mut connection = Connection::new(guest, shared);
    let reason = poll_fn(|cx| connection.poll(cx)).await;
    let outstanding = connection.guest.outstanding();
    tracing::debug!(%reason, outstanding, "memcached connection closed");
    if connection.leaves_input(&reason) {
        connection.farewell().await;
    }
}

/// Tells a client that there is no room for it, if it reads that soon.
pub(super) async fn turn_away(mut tcp: TcpStream) {
    let reply = line(Reply::TooManyConnections);
    let tell = async {
        poll_fn(|cx| Pin::new(&mut tcp).poll_write(cx, &reply)).await?;
        poll_fn(|cx| Pin::new(&mut tcp).poll_shutdown(cx)).await?;
        loop {
            tcp.readable().await?;
            match tcp.try_read(&mut [0; 4096]) {
                Ok(0) => return io::Result::Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    };
    // Whoever does not stay to hear it is not told.
    let _ = tokio::time::timeout(FAREWELL, tell).await;
}

struct Connection {
    guest: Guest,
    shared: Arc<Shared>,
    parser: Parser,
    /// What was read and not parsed. Holds no memory while it is empty.
    input: BytesMut,
    /// A command that has to wait for one before it.
    held: Option<(Command, Running)>,
    pipeline: Pipeline,
    output: Output,
    /// An empty vector for replies.
    spare: Vec<GuestReply>,
    /// The parser needs more bytes.
    is_hungry: bool,
    /// The client will send no more.
    is_half_closed: bool,
    /// No more commands are taken, and why. What was submitted is answered first.
    closing: Option<CloseReason>,
    /// How long the bytes of the last read had waited, for the commands that they completed.
    waited: Duration,
    /// Since when the connection would have read, had there been bytes.
    listening_since: Option<Instant>,
    /// Since when a command is incomplete.
    command_since: Option<Instant>,
    /// Since when the client has read nothing of what waits for it.
    write_since: Option<Instant>,
    /// How long more may be unread than the limit.
    surplus: Surplus,
}

impl Connection {
    fn new(guest: Guest, shared: Arc<Shared>) -> Self {
        Self {
            guest,
            parser: Parser::new(shared.store.item_bytes_max()),
            shared,
            input: BytesMut::new(),
            held: None,
            pipeline: Pipeline::default(),
            output: Output::default(),
            spare: Vec::new(),
            is_hungry: true,
            is_half_closed: false,
            closing: None,
            waited: Duration::ZERO,
            listening_since: Some(clock::now()),
            command_since: None,
            write_since: None,
            surplus: Surplus::default(),
        }
    }

    /// One turn.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        match self.turn(cx) {
            Ok(()) if self.is_finished() => {
                Poll::Ready(self.closing.take().expect("only a closing connection finishes"))
            }
            Ok(()) => Poll::Pending,
            Err(reason) => Poll::Ready(reason),
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<(), CloseReason> {
        if self.guest.is_leaving() && self.closing.is_none() {
            self.closing = Some(CloseReason::Shutdown);
        }
        let mut goes_on = true;
        for _ in 0..STEPS_PER_TURN {
            goes_on = self.step(cx)?;
            if !goes_on {
                break;
            }
        }
        let was_full = self.is_full();
        self.write(cx)?;
        self.check_deadlines(cx, clock::now())?;
        if goes_on || (was_full && !self.is_full()) {
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Submits what was read, takes the replies that are ready, and reads if there is room; true if
    /// it is worth doing so again.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<bool, CloseReason> {
        self.submit_all();
        if self.collect(cx) {
            return Ok(true);
        }
        if self.may_read() {
            return self.read(cx);
        }
        self.listening_since = None;
        Ok(false)
    }

    /// True while more bytes are welcome. Some are read ahead, not least because whoever does not
    /// read does not notice that the client is gone.
    fn may_read(&self) -> bool {
        let has_room = self.is_hungry || self.input.len() < READ_AHEAD;
        has_room && !self.is_half_closed && self.closing.is_none() && !self.is_unread()
    }

    /// True when nothing more may be begun before something has been answered and read.
    fn is_full(&self) -> bool {
        self.pipeline.len() >= self.shared.pipeline || self.is_unread()
    }

    /// True when the client leaves too much unread. It is not read from either, then.
    fn is_unread(&self) -> bool {
        let unread = self.output.len() + self.pipeline.ready_bytes();
        unread >= self.shared.limits.unread_bytes / 2
    }

    /// True when all that was accepted is answered, and no more will be.
    fn is_finished(&self) -> bool {
        self.closing.is_some() && self.pipeline.is_empty() && self.output.is_empty()
    }

    /// Submits commands until there are no more, or no room for them.
    fn submit_all(&mut self) {
        if self.closing.is_some() {
            return;
        }
        if !self.is_full()
            && let Some((command, running)) = self.held.take()
        {
            self.submit(command, running);
        }
        self.is_hungry = false;
        let mut completed = false;
        while self.held.is_none() && self.closing.is_none() && !self.is_full() {
            let Some(parsed) = self.parser.next(&mut self.input) else {
                self.is_hungry = true;
                break;
            };
            completed = true;
            self.request(parsed);
        }
        self.after_parsing(completed);
    }

    fn request(&mut self, parsed: Result<Command, ParseError>) {
        match parsed {
            Ok(Command::Quit) => self.closing = Some(CloseReason::Left),
            Ok(command) => {
                let running = Running::new(&command, self.shared.store.item_bytes_max());
                self.submit(command, running);
            }
            Err(error) => {
                let mut reply = BytesMut::new();
                error.write(&mut reply);
                self.pipeline.answer(reply.freeze());
            }
        }
    }

    /// Submits a command, or keeps it until those before it allow that.
    fn submit(&mut self, command: Command, running: Running) {
        if self.pipeline.holds_back(&running) {
            self.held = Some((command, running));
            return;
        }
        let method = match command {
            Command::Get { .. } | Command::Gat { .. } => native::GET,
            Command::Delete { .. } => native::DELETE,
            _ => native::SET,
        };
        let id = self.pipeline.start(running);
        let store = self.shared.store.clone();
        self.guest.submit_as(id, method, self.waited, |ctx| async move {
            Ok::<_, Status>(execute(&store, &ctx, &command)?)
        });
    }

    /// Notes how far the input has come; `completed` says that commands have ended in it.
    fn after_parsing(&mut self, completed: bool) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        if !self.is_hungry {
            // What stays behind now waits for its own connection, not for the server.
            self.waited = Duration::ZERO;
            self.command_since = None;
            return;
        }
        if self.is_half_closed {
            self.closing = Some(CloseReason::Left);
        }
        let is_partial = !self.input.is_empty() || !self.parser.is_between_commands();
        let since = if completed { None } else { self.command_since };
        self.command_since = is_partial.then(|| since.unwrap_or_else(clock::now));
    }

    /// Takes the replies that are ready, and readies those for writing whose turn has come; true if
    /// there were some.
    fn collect(&mut self, cx: &mut Context<'_>) -> bool {
        let came = self.guest.poll_replies(cx, &mut self.spare).is_ready();
        for GuestReply { id, result } in self.spare.drain(..) {
            let outcome = match result {
                Some(Ok(reply)) => Outcome::Done(reply),
                Some(Err(Status::Rejected(_))) => Outcome::Overloaded,
                Some(Err(_)) | None => Outcome::Failed,
            };
            self.pipeline.finish(id, outcome);
        }
        while let Some(reply) = self.pipeline.pop() {
            self.push(reply);
        }
        came
    }

    fn push(&mut self, reply: Bytes) {
        let len = reply.len();
        self.output.push(reply);
        let above = self.output.len().saturating_sub(self.shared.limits.unread_bytes).min(len);
        if above > 0 {
            self.surplus.on_more(above, clock::now());
        }
    }

    /// Reads once; true if there was something.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, CloseReason> {
        let since = *self.listening_since.get_or_insert_with(clock::now);
        READ_BUFFER.with_borrow_mut(|buffer| {
            let Poll::Ready(read) = self.guest.poll_read(cx, buffer)? else { return Ok(false) };
            let (len, waited) = read;
            self.is_half_closed = len == 0;
            // While the connection did not want to read, its client waited for itself.
            self.waited = waited.min(clock::now().since(since));
            // Room for a large value at once. The pages are the system's until bytes come.
            self.input.reserve(len.max(self.parser.bytes_wanted(self.input.len())));
            self.input.extend_from_slice(&buffer[..len]);
            Ok(true)
        })
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), CloseReason> {
        if self.output.is_empty() {
            return Ok(());
        }
        let before = self.output.len();
        match self.output.poll_flush(|pieces| self.guest.poll_write(cx, pieces)) {
            Poll::Ready(flushed) => {
                flushed?;
                self.write_since = None;
            }
            Poll::Pending if self.output.len() < before => self.write_since = Some(clock::now()),
            Poll::Pending => self.write_since = self.write_since.or_else(|| Some(clock::now())),
        }
        if self.output.len() <= self.shared.limits.unread_bytes {
            self.surplus.on_drained();
        }
        Ok(())
    }

    /// Ends the connection if its client took too long, else says when to look again.
    fn check_deadlines(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<(), CloseReason> {
        let passed = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        let limits = &self.shared.limits;
        let write = self.write_since.map(|since| since + limits.write_timeout);
        let surplus = self.surplus.deadline();
        if passed(write) || passed(surplus) {
            return Err(CloseReason::NotReading);
        }
        let mut command = self.command_since.map(|since| since + limits.frame_timeout);
        if passed(command) {
            (command, self.command_since) = (None, None);
            self.pipeline.answer(line(Reply::Incomplete));
            self.closing = Some(CloseReason::Incomplete);
            cx.waker().wake_by_ref();
        }
        let next = [command, write, surplus].into_iter().flatten().min();
        self.guest.set_deadline(next.unwrap_or(Instant::NEVER));
        Ok(())
    }

    /// True when the client may be about to send more, and may not have read what it was sent.
    fn leaves_input(&self, reason: &CloseReason) -> bool {
        match reason {
            CloseReason::Left => !self.is_half_closed,
            CloseReason::Incomplete | CloseReason::Shutdown => true,
            CloseReason::Io(_) | CloseReason::NotReading => false,
        }
    }

    /// Says that nothing more will come, and waits for the client to leave, too.
    async fn farewell(mut self) {
        let wait = poll_fn(|cx| {
            ready!(self.guest.poll_shutdown(cx))?;
            READ_BUFFER.with_borrow_mut(|buffer| {
                while ready!(self.guest.poll_read(cx, buffer))?.0 > 0 {}
                Poll::Ready(io::Result::Ok(()))
            })
        });
        let _ = tokio::time::timeout(FAREWELL, wait).await;
    }
}

/// Carries a command out, on a worker.
fn execute(store: &Store, ctx: &request::Context, command: &Command) -> Result<Bytes, Rejected> {
    let mut reply = BytesMut::new();
    protocol::execute(store, ctx, unix_time(), command, &mut reply)?;
    Ok(reply.freeze())
}
