//! A server that speaks the protocol frame by frame and keeps to no rule that a test does not want.

use std::net::SocketAddr;
use std::time::Duration;

use seawall_control::controller::Feedback;
use seawall_control::wire::{self, HEADER_LEN, RequestOp, ResponseOp, Settings};
use seawall_rpc::{ClientConfig, ConnectError, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server that does what a test says, frame by frame.
pub(crate) struct Fake {
    pub(crate) tcp: TcpStream,
}

impl Fake {
    /// Lets a client connect to a server that does `script`.
    pub(crate) async fn connect<F>(script: impl FnOnce(Fake) -> F) -> Result<Session, ConnectError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::connect_within(Duration::from_secs(30), script).await
    }

    /// The same, and the client has so much time to connect.
    pub(crate) async fn connect_within<F>(
        connect_timeout: Duration,
        script: impl FnOnce(Fake) -> F,
    ) -> Result<Session, ConnectError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = ClientConfig { connect_timeout, ..ClientConfig::default() };
        let connecting = tokio::spawn(async move { Session::connect(address, &config).await });
        let (tcp, _) = listener.accept().await.unwrap();
        tokio::spawn(script(Fake { tcp }));
        connecting.await.unwrap()
    }

    /// A replica that does `script` on each of its connections; gives its address.
    pub(crate) async fn replica<F>(script: impl Fn(Fake) -> F + Send + 'static) -> SocketAddr
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(script(Fake { tcp }));
            }
        });
        address
    }

    /// Sends bytes; that the client is gone is no matter.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        _ = self.tcp.write_all(bytes).await;
    }

    /// The next frame of the client; `None` once it has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<wire::Request> {
        let mut header = [0; HEADER_LEN];
        self.tcp.read_exact(&mut header).await.ok()?;
        let frame = wire::Request::decode(&header, u32::MAX).unwrap();
        let mut body = vec![0; frame.body_len as usize];
        self.tcp.read_exact(&mut body).await.ok()?;
        Some(frame)
    }

    /// Reads the hello and answers it, as a server under Breakwater.
    pub(crate) async fn greet(&mut self) {
        self.greet_as("breakwater").await;
    }

    /// Reads the hello and answers it, as a server under this algorithm.
    pub(crate) async fn greet_as(&mut self, algorithm: &str) {
        assert_eq!(self.next().await.unwrap().op, RequestOp::Hello);
        self.send(&settings(algorithm)).await;
    }

    /// The next call of the client, other frames left out; `None` once it has closed the
    /// connection.
    pub(crate) async fn next_call(&mut self) -> Option<wire::Request> {
        loop {
            let frame = self.next().await?;
            if frame.op == RequestOp::Call {
                return Some(frame);
            }
        }
    }
}

/// A frame with this body.
pub(crate) fn frame(mut head: wire::Response, body: &[u8]) -> Vec<u8> {
    head.body_len = body.len() as u32;
    [&head.encode()[..], body].concat()
}

/// What a server says first.
pub(crate) fn settings(algorithm: &str) -> Vec<u8> {
    let settings = Settings {
        algorithm: algorithm.into(),
        body_max: 1 << 20,
        outstanding_max: 100,
        slo: Duration::from_secs(5),
        stages: Vec::new(),
    };
    frame(wire::Response::new(ResponseOp::Settings), &settings.encode())
}

/// The server asks to leave.
pub(crate) fn goaway(reason: &str) -> Vec<u8> {
    frame(wire::Response::new(ResponseOp::Goaway), reason.as_bytes())
}

/// A reply, "served", that tells a window.
pub(crate) fn reply(id: u64, window: u32, seq: u32) -> Vec<u8> {
    let mut head = wire::Response::new(ResponseOp::Reply);
    (head.id, head.feedback) = (id, Feedback::Window { size: window, seq });
    frame(head, b"served")
}

/// A reply with this result.
pub(crate) fn answer(id: u64, result: &str) -> Vec<u8> {
    let mut head = wire::Response::new(ResponseOp::Reply);
    head.id = id;
    frame(head, result.as_bytes())
}
