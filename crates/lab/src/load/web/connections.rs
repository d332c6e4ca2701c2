//! Connections of one client, as many as it may have, opened when they are needed.

use std::io;
use std::net::SocketAddr;

use anyhow::{Result, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Protocol;

type Exclusive = http1::SendRequest<Full<Bytes>>;
type Shared = http2::SendRequest<Full<Bytes>>;

/// Why there was no answer: the connection could not be opened, or it broke.
#[derive(Debug)]
pub(super) struct Lost(pub(super) String);

/// The connections.
#[derive(Debug)]
pub(super) struct Pool {
    address: SocketAddr,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// One request at a time on each: whoever holds a place may have a connection.
    Exclusive { places: Semaphore, idle: Mutex<Vec<Exclusive>> },
    /// Any number of requests at a time on each.
    Shared(Vec<tokio::sync::Mutex<Option<Shared>>>),
}

/// A connection in use. One that is exclusive is closed when this is dropped without having been
/// kept: what would come on it is the reply to a request that nobody waits for.
#[derive(Debug)]
pub(super) enum Lane<'a> {
    Exclusive { sender: Option<Exclusive>, pool: &'a Pool, _place: SemaphorePermit<'a> },
    Shared(Shared),
}

impl Pool {
    /// A pool of at most so many connections.
    ///
    /// # Errors
    ///
    /// If nobody listens there.
    pub(super) async fn open(
        address: SocketAddr,
        protocol: Protocol,
        connections: usize,
    ) -> Result<Self> {
        let kind = match protocol {
            Protocol::Http => Kind::Exclusive {
                places: Semaphore::new(connections),
                idle: Mutex::new(Vec::with_capacity(connections)),
            },
            Protocol::Grpc => Kind::Shared((0..connections).map(|_| None.into()).collect()),
        };
        let pool = Self { address, kind };
        match pool.take(0).await {
            Ok(lane) => lane.keep(),
            Err(Lost(words)) => bail!("cannot call {address}: {words}"),
        }
        Ok(pool)
    }

    /// A connection: a free one, in the order of asking, or the one with this number (modulo).
    ///
    /// # Errors
    ///
    /// If it had to be opened and could not.
    pub(super) async fn take(&self, lane: usize) -> Result<Lane<'_>, Lost> {
        match &self.kind {
            Kind::Exclusive { places, idle } => {
                let place = places.acquire().await.map_err(|error| Lost(error.to_string()))?;
                // The one that was used last, as clients do it, so that those of a rush grow idle.
                let sender = loop {
                    let free = idle.lock().pop();
                    match free {
                        Some(sender) if sender.is_closed() => {}
                        Some(sender) => break sender,
                        None => break self.exclusive().await?,
                    }
                };
                Ok(Lane::Exclusive { sender: Some(sender), pool: self, _place: place })
            }
            Kind::Shared(senders) => {
                let mut sender = senders[lane % senders.len()].lock().await;
                match &*sender {
                    Some(sender) if !sender.is_closed() => Ok(Lane::Shared(sender.clone())),
                    _ => Ok(Lane::Shared(sender.insert(self.shared().await?).clone())),
                }
            }
        }
    }

    async fn exclusive(&self) -> Result<Exclusive, Lost> {
        let opened = async {
            let stream = self.connect().await?;
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
            // How it ends is told by the requests on it.
            tokio::spawn(async { _ = connection.await });
            io::Result::Ok(sender)
        };
        opened.await.map_err(|error| Lost(format!("no connection: {error}")))
    }

    async fn shared(&self) -> Result<Shared, Lost> {
        let opened = async {
            let (io, executor) = (TokioIo::new(self.connect().await?), TokioExecutor::new());
            let handshake = http2::handshake(executor, io);
            let (sender, connection) = handshake.await.map_err(io::Error::other)?;
            tokio::spawn(async { _ = connection.await });
            io::Result::Ok(sender)
        };
        opened.await.map_err(|error| Lost(format!("no connection: {error}")))
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn give_back(&self, sender: Exclusive) {
        if let Kind::Exclusive { idle, .. } = &self.kind {
            idle.lock().push(sender);
        }
    }
}

impl Lane<'_> {
    /// Sends a request; gives the head of the response, whose body is to be read before the
    /// connection is [kept](Self::keep).
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Lost> {
        let lost = |error: hyper::Error| Lost(format!("the connection was lost: {error}"));
        match self {
            Self::Exclusive { sender: None, .. } => Err(Lost("the connection is gone".into())),
            Self::Exclusive { sender: Some(sender), .. } => {
                sender.ready().await.map_err(lost)?;
                sender.send_request(request).await.map_err(lost)
            }
            Self::Shared(sender) => {
                sender.ready().await.map_err(lost)?;
                sender.send_request(request).await.map_err(lost)
            }
        }
    }

    /// The response was read: the next request may have the connection.
    pub(super) fn keep(self) {
        if let Self::Exclusive { sender: Some(sender), pool, _place } = self
            && !sender.is_closed()
        {
            pool.give_back(sender);
        }
    }
}
