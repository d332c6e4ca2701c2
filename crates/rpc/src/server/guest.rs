//! Clients of other protocols, which know nothing of credits.
//!
//! Their requests pass the same admission, wait in the same run queue and run on the same workers.
//! While the pool has room they are let in; once it has none they get their share of it, and entry
//! AQM and the run queue's budget bound their wait like everybody's.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use async_task::Builder;
use bytes::Bytes;
use seawall_control::Instant;
use seawall_control::request::{Claims, Identity};
use seawall_control::wire;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::books::Books;
use super::close::CloseReason;
use super::context::Context;
use super::job::{Call, End, serve};
use super::stats::add;
use super::{Shared, accept};
use crate::clock;
use crate::net::Stream;
use crate::status::Status;

/// Opens sessions for guests of one server.
#[derive(Clone, Debug)]
pub struct Guests {
    shared: Arc<Shared>,
    reactors: Vec<Handle>,
}

/// Accepts guests until it is [stopped](Self::stop).
#[derive(Debug)]
pub struct GuestListener {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// The session of one guest. Dropping it cancels its calls.
#[derive(Debug)]
pub struct Guest {
    shared: Arc<Shared>,
    books: Books,
    stream: Option<Stream>,
}

/// How a guest's call ended.
#[derive(Debug)]
pub struct GuestReply {
    /// Number of the call.
    pub id: u64,
    /// Its result; `None` when it was cancelled.
    pub result: Option<Result<Bytes, Status>>,
}

impl Guests {
    pub(super) fn new(shared: Arc<Shared>, reactors: Vec<Handle>) -> Self {
        Self { shared, reactors }
    }

    /// Where to run the connections of guests: the threads that read and write for the server.
    pub fn reactors(&self) -> &[Handle] {
        &self.reactors
    }

    /// Waits until the server stops.
    pub async fn stopped(&self) {
        self.shared.stop.wait().await;
    }

    /// Opens a session; `None` when the server has no room for another, or is about to stop.
    pub fn open(&self) -> Option<Guest> {
        self.try_open().ok()
    }

    fn try_open(&self) -> Result<Guest, CloseReason> {
        let mut books = Books::open(&self.shared)?;
        books.identify(Identity { speaks_credits: false, ..Identity::default() });
        Ok(Guest { shared: self.shared.clone(), books, stream: None })
    }

    /// Listens at `address` for clients of another protocol; `serve` speaks it with each of them,
    /// through a guest that reads and writes the client's socket, so that its bytes are counted and
    /// their wait to be read is known.
    ///
    /// When the server has no room for another session, or is about to stop, `serve` gets the bare
    /// socket instead, to say so.
    ///
    /// # Errors
    ///
    /// The system's, when the address cannot be listened at.
    pub fn listen<S, F>(&self, address: SocketAddr, serve: S) -> io::Result<GuestListener>
    where
        S: Fn(Result<Guest, TcpStream>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let guests = self.clone();
        let (listener, address) = accept::bind(address, &self.reactors)?;
        let accepting = accept::start(listener, &self.reactors, move |tcp| {
            let (guests, serve) = (guests.clone(), serve.clone());
            async move {
                if let Some(client) = guests.welcome(tcp) {
                    serve(client).await;
                }
            }
        });
        Ok(GuestListener { address, accepting })
    }

    /// A guest for an accepted connection, if it is still there.
    fn welcome(&self, tcp: io::Result<TcpStream>) -> Option<Result<Guest, TcpStream>> {
        add(&self.shared.counters.accepted, 1);
        let tcp = match tcp {
            Ok(tcp) => tcp,
            Err(error) => {
                self.shared.counters.gone(error);
                return None;
            }
        };
        match self.try_open() {
            Ok(mut guest) => {
                self.shared.watch(&tcp);
                guest.stream = Some(Stream::plain(tcp, self.shared.config.receive_timestamps));
                Some(Ok(guest))
            }
            Err(reason) => {
                self.shared.counters.closed(&reason);
                Some(Err(tcp))
            }
        }
    }
}

impl GuestListener {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections. Those that stand are not touched.
    pub fn stop(&self) {
        self.accepting.abort();
    }
}

impl Guest {
    /// Submits a call; `handler` runs on the server's workers if it is admitted. Either way
    /// [`poll_replies`](Self::poll_replies) gives its one reply.
    ///
    /// `id` must not be in use.
    pub fn submit<H, Fut>(&mut self, id: u64, handler: H)
    where
        H: FnOnce(Context) -> Fut,
        Fut: Future<Output = Result<Bytes, Status>> + Send + 'static,
    {
        self.submit_as(id, 0, Duration::ZERO, handler);
    }

    /// The same, as a call of `method`, whose class it is measured in, after its bytes had `waited`
    /// to be read.
    pub fn submit_as<H, Fut>(&mut self, id: u64, method: u16, waited: Duration, handler: H)
    where
        H: FnOnce(Context) -> Fut,
        Fut: Future<Output = Result<Bytes, Status>> + Send + 'static,
    {
        let mut frame = wire::Request::new(wire::RequestOp::Call);
        frame.claims = Claims { id, method, ..Claims::default() };
        let now = clock::now();
        let Ok(context) = self.books.arrive(now, &frame, waited) else { return };
        let shared = &self.shared;
        let call = Call::new(context.clone(), self.books.session.clone());
        let serving = serve(call, shared.admission.clone(), handler(context.clone()));
        let job =
            Builder::new().metadata(context).spawn(move |_| serving, shared.queue.scheduler());
        self.books.run(now, id, job);
    }

    /// Reads from the guest's socket. Gives the number of bytes, zero at the end of the stream, and
    /// how long they had waited to be read, as far as that is known.
    ///
    /// # Panics
    ///
    /// This and the other methods of the socket panic if the guest did not come through
    /// [`Guests::listen`].
    pub fn poll_read(
        &mut self,
        cx: &mut TaskContext<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, Duration)>> {
        let read = ready!(self.stream().poll_read(cx, buf))?;
        add(&self.shared.counters.bytes_received, read.len as u64);
        Poll::Ready(Ok((read.len, read.waited)))
    }

    /// Writes some of `pieces` to the guest's socket, and gives the number of bytes.
    pub fn poll_write(
        &mut self,
        cx: &mut TaskContext<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.stream().poll_write(cx, pieces))?;
        add(&self.shared.counters.bytes_sent, written as u64);
        add(&self.shared.counters.writes, 1);
        Poll::Ready(Ok(written))
    }

    /// Tells the client that nothing more will come.
    pub fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }

    /// True once the server wants its clients to leave: it takes no more calls. The task that last
    /// called [`poll_replies`](Self::poll_replies) is woken then.
    pub fn is_leaving(&self) -> bool {
        self.books.session.is_leaving()
    }

    /// Has that task woken some time after `at`, too: within a quarter of a second, which is what
    /// deadlines against slow clients need. [`Instant::NEVER`] takes it back.
    pub fn set_deadline(&mut self, at: Instant) {
        self.books.session.set_deadline(at);
    }

    /// Calls that have no reply yet.
    pub fn outstanding(&self) -> u32 {
        self.books.in_flight()
    }

    /// Takes all replies that are ready, in the order in which they became so; pending if there are
    /// none.
    pub fn poll_replies(
        &mut self,
        cx: &mut TaskContext<'_>,
        replies: &mut Vec<GuestReply>,
    ) -> Poll<()> {
        self.books.session.register(cx.waker());
        // Its news are of credits, of which guests know nothing.
        let Some((_, settled)) = self.books.settle() else { return Poll::Pending };
        let before = replies.len();
        replies.extend(settled.map(|reply| {
            let id = reply.context.claims().id;
            let result = match reply.end {
                End::Done(payload) => Some(Ok(payload)),
                End::Failed { code, message } => Some(Err(Status::Error { code, message })),
                End::Rejected(rejected) => Some(Err(Status::Rejected(rejected))),
                End::Cancelled => None,
            };
            GuestReply { id, result }
        }));
        if replies.len() > before { Poll::Ready(()) } else { Poll::Pending }
    }

    fn stream(&mut self) -> &mut Stream {
        self.stream.as_mut().expect("the guest came through a listener")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.stream.is_some() {
            let left = self.books.in_flight() == 0;
            self.shared.counters.closed(&if left { CloseReason::Left } else { CloseReason::Gone });
        }
    }
}
