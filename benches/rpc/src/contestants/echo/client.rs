//! Many callers, one connection, one driver.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Result, ensure};
use bytes::{Bytes, BytesMut};
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::frames::{Framed, push};
use crate::closed_loop::Caller;

/// A connection. When its last clone is gone, it ends.
#[derive(Clone)]
pub(in super::super) struct Client {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    driver: AtomicWaker,
}

#[derive(Default)]
struct State {
    output: BytesMut,
    /// Callers in the order of their requests, which is that of the replies.
    waiting: VecDeque<oneshot::Sender<Bytes>>,
    closed: bool,
}

impl Client {
    pub(in super::super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let framed = Framed::new(TcpStream::connect(address).await?)?;
        let shared = Arc::new(Shared::default());
        tokio::spawn(drive(framed, shared.clone()));
        Ok(Self { handle: Arc::new(Handle { shared }) })
    }
}

impl Caller for Client {
    async fn call(&mut self, payload: Bytes) -> Result<Bytes> {
        let shared = &self.handle.shared;
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = shared.state.lock();
            ensure!(!state.closed, "the connection was lost");
            push(&mut state.output, &payload);
            state.waiting.push_back(sender);
        }
        shared.driver.wake();
        Ok(receiver.await?)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.driver.wake();
    }
}

async fn drive(mut framed: Framed, shared: Arc<Shared>) {
    let ended = poll_fn(|cx| turn(&mut framed, &shared, cx)).await;
    let mut state = shared.state.lock();
    state.closed = true;
    state.waiting.clear();
    drop(state);
    if let Err(error) = ended {
        eprintln!("the connection was lost: {error}");
    }
}

/// Hands out all replies that have come, then sends all requests that wait.
fn turn(framed: &mut Framed, shared: &Shared, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    shared.driver.register(cx.waker());
    while let Poll::Ready(read) = framed.poll_read(cx)? {
        if read == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut state = shared.state.lock();
        while let Some(payload) = framed.next()? {
            let caller = state.waiting.pop_front().ok_or(io::ErrorKind::InvalidData)?;
            // A caller may have lost interest; its reply still has its turn.
            _ = caller.send(payload);
        }
    }
    loop {
        if framed.output.is_empty() {
            let mut state = shared.state.lock();
            std::mem::swap(&mut framed.output, &mut state.output);
            if state.closed {
                return Poll::Ready(Ok(()));
            }
        }
        if framed.output.is_empty() {
            return Poll::Pending;
        }
        std::task::ready!(framed.poll_write(cx))?;
    }
}
