//! The driver of one session: reads replies, writes requests, lets old ones expire.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use seawall_control::Instant;
use seawall_control::wire::{self, HEADER_LEN, RequestOp, ResponseOp};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::config::{ClientConfig, ConnectError};
use super::session::{Results, Shared, State, finish};
use crate::clock;
use crate::net::{FrameBytes, FrameReader, OutBuffer, Stream, Written, keep_alive};
use crate::tls::Connector;

/// Bytes that one read takes; the buffer is the thread's, shared by all sessions on it.
const READ_BYTES: usize = 64 << 10;

/// Reads that one turn takes before requests get theirs.
const READS_PER_TURN: usize = 4;

/// How long a server may take to close the connection after a goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

/// Largest body that a server may send. A reply beyond it ends the connection.
const BODY_MAX: u32 = 1 << 30;

thread_local! {
    static READ_BUFFER: std::cell::RefCell<Vec<u8>> =
        std::cell::RefCell::new(vec![0; READ_BYTES]);
}

/// Connects, says hello, and waits for the server's settings.
pub(super) async fn connect(
    address: SocketAddr,
    config: &ClientConfig,
) -> Result<(Stream, wire::Settings), ConnectError> {
    let shake = async {
        let tcp = TcpStream::connect(address).await?;
        keep_alive(&tcp)?;
        let stream = match &config.tls {
            None => Stream::plain(tcp, false),
            Some(tls) => Connector::new(tls)?.connect(tcp).await?,
        };
        hello(stream, config).await
    };
    match tokio::time::timeout(config.connect_timeout, shake).await {
        Ok(shaken) => shaken,
        Err(_) => Err(ConnectError::Timeout { address, after: config.connect_timeout }),
    }
}

async fn hello(
    mut stream: Stream,
    config: &ClientConfig,
) -> Result<(Stream, wire::Settings), ConnectError> {
    let token = config.token.as_ref().map(|token| token.as_bytes().to_vec());
    let hello = wire::Hello { name: config.name.clone(), token, spills: config.spills };
    let body = Bytes::from(hello.encode());
    let mut frame = wire::Request::new(RequestOp::Hello);
    frame.body_len = body.len() as u32;
    let mut out = OutBuffer::default();
    out.push(&frame.encode(), body);
    poll_fn(|cx| out.poll_flush(&mut stream, cx, &mut Written::default())).await?;

    // Nothing behind the first frame is read: it is the driver's.
    let mut bytes = Vec::new();
    read_up_to(&mut stream, &mut bytes, HEADER_LEN).await?;
    let frame = wire::Response::decode(&bytes, BODY_MAX)?;
    read_up_to(&mut stream, &mut bytes, frame.frame_len()).await?;
    let body = &bytes[HEADER_LEN..];
    match frame.op {
        ResponseOp::Settings => Ok((stream, wire::Settings::decode(body)?)),
        ResponseOp::Goaway => {
            Err(ConnectError::Refused(String::from_utf8_lossy(body).into_owned()))
        }
        _ => Err(ConnectError::Refused("the server's first frame was not its settings".into())),
    }
}

/// Reads until there are `len` bytes, or the first of them cannot begin a frame.
async fn read_up_to(
    stream: &mut Stream,
    bytes: &mut Vec<u8>,
    len: usize,
) -> Result<(), ConnectError> {
    let mut buffer = [0; 4096];
    while bytes.len() < len {
        let room = buffer.len().min(len - bytes.len());
        let read = poll_fn(|cx| stream.poll_read(cx, &mut buffer[..room])).await?;
        if read.len == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        bytes.extend_from_slice(&buffer[..read.len]);
        match wire::Response::decode(bytes, BODY_MAX) {
            Err(error) if !error.is_incomplete() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Drives a session until it ends, and tells all its calls.
pub(super) fn drive(stream: Stream, shared: Arc<Shared>) -> impl Future<Output = ()> {
    // Not left to the first poll, which never comes if the runtime ends before it.
    let ending = Ending { shared, reason: "its driver was stopped".into() };
    let mut driver = Driver {
        stream,
        reader: FrameReader::default(),
        out: OutBuffer::default(),
        timer: None,
        goaway: None,
    };
    async move {
        let ended = poll_fn(|cx| driver.poll(&ending.shared, cx)).await;
        let said_goodbye = ended.is_ok() && driver.goaway.is_none();
        let reason = ended.err().unwrap_or_else(|| "it was closed".into());
        ending.end(driver.goaway.take().unwrap_or(reason));
        if said_goodbye {
            let _ = tokio::time::timeout(FAREWELL, poll_fn(|cx| driver.poll_closed(cx))).await;
        }
    }
}

/// Ends the session when it is dropped, however its driver ended: in order, in a panic, or with its
/// runtime.
struct Ending {
    shared: Arc<Shared>,
    reason: String,
}

impl Ending {
    fn end(mut self, reason: String) {
        self.reason = reason;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        tracing::debug!(peer = %self.shared.peer, reason = self.reason, "session ended");
        let mut results = Results::new();
        self.shared.state.lock().close(&self.reason, &mut results);
        finish(results);
    }
}

struct Driver {
    stream: Stream,
    reader: FrameReader,
    out: OutBuffer,
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Why the server asked to leave.
    goaway: Option<String>,
}

impl Driver {
    /// One turn; ready when the session has ended, with the reason if not in order.
    fn poll(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        shared.waker.register(cx.waker());
        let mut results = Results::new();
        let turned = self.turn(shared, cx, &mut results);
        finish(results);
        match turned {
            Ok(false) => Poll::Pending,
            Ok(true) => Poll::Ready(Ok(())),
            Err(reason) => Poll::Ready(Err(reason)),
        }
    }

    /// Ready when the server has closed the connection.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        READ_BUFFER.with_borrow_mut(|ignored| {
            while ready!(self.stream.poll_read(cx, ignored)).is_ok_and(|read| read.len > 0) {}
            Poll::Ready(())
        })
    }

    fn turn(
        &mut self,
        shared: &Shared,
        cx: &mut Context<'_>,
        results: &mut Results,
    ) -> Result<bool, String> {
        let mut more = false;
        for turn in 0..READS_PER_TURN {
            if !self.read(shared, cx, results)? {
                break;
            }
            more = turn + 1 == READS_PER_TURN;
        }
        if more {
            cx.waker().wake_by_ref();
        }
        loop {
            let mut state = shared.state.lock();
            let now = clock::now();
            state.on_timeout(now);
            state.pump(now, results);
            if self.out.is_empty() {
                std::mem::swap(&mut self.out, &mut state.out);
            }
            self.set_timer(state.poll_timeout(now), cx);
            let leaving = state.leaving && state.is_idle();
            drop(state);
            if self.out.is_empty() {
                return Ok(leaving);
            }
            match self.out.poll_flush(&mut self.stream, cx, &mut Written::default()) {
                Poll::Ready(flushed) => flushed.map_err(|error| error.to_string())?,
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// Reads once; true if there was something.
    fn read(
        &mut self,
        shared: &Shared,
        cx: &mut Context<'_>,
        results: &mut Results,
    ) -> Result<bool, String> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let read = match self.stream.poll_read(cx, buffer) {
                Poll::Pending => return Ok(false),
                Poll::Ready(read) => read.map_err(|error| error.to_string())?,
            };
            if read.len == 0 {
                return Err("the server closed it".into());
            }
            let mut state = shared.state.lock();
            let now = clock::now(); // for all frames of this read
            let mut input = &buffer[..read.len];
            let bad = |error| format!("the server sent a bad frame: {error}");
            while let Some((frame, bytes)) = self.reader.next(&mut input, BODY_MAX).map_err(bad)? {
                on_frame(&mut state, now, &frame, &bytes, &mut self.goaway, results)?;
            }
            Ok(true)
        })
    }

    /// Arranges to be polled when something becomes due. Tokio's timers are coarse; what is due
    /// earlier is also noticed with the next reply.
    fn set_timer(&mut self, next: Option<Instant>, cx: &mut Context<'_>) {
        let Some(next) = next else { return };
        let (at, sleep) = self.timer.get_or_insert_with(|| {
            (Instant::NEVER, Box::pin(tokio::time::sleep_until(clock::to_tokio(next))))
        });
        if *at != next {
            *at = next;
            sleep.as_mut().reset(clock::to_tokio(next));
        }
        if sleep.as_mut().poll(cx).is_ready() {
            *at = Instant::NEVER;
            cx.waker().wake_by_ref();
        }
    }
}

/// Carries out one frame. An error says how it breaks the protocol.
fn on_frame(
    state: &mut State,
    now: Instant,
    frame: &wire::Response,
    bytes: &FrameBytes<'_>,
    goaway: &mut Option<String>,
    results: &mut Results,
) -> Result<(), String> {
    match frame.op {
        ResponseOp::Reply => {
            let body = bytes.slice(HEADER_LEN..frame.frame_len());
            state.on_reply(now, frame, body, results)
        }
        ResponseOp::Credit => {
            state.on_push(now, frame.feedback);
            Ok(())
        }
        ResponseOp::Goaway => {
            let reason = &bytes.as_slice()[HEADER_LEN..];
            *goaway = Some(String::from_utf8_lossy(reason).into_owned());
            state.leave(results);
            Ok(())
        }
        ResponseOp::Settings => Err("the server sent its settings twice".into()),
    }
}
