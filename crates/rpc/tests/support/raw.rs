//! A client that speaks the protocol frame by frame and keeps to no rule that a test does not want.

use std::net::SocketAddr;
use std::time::Duration;

use seawall_control::controller::Feedback;
use seawall_control::wire::{
    HEADER_LEN, Hello, Request, RequestOp, Response, ResponseOp, Settings, Status,
};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Nothing that a test waits for takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// One connection.
pub(crate) struct Raw {
    pub(crate) tcp: TcpStream,
    received: Vec<u8>,
}

/// A frame of the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) head: Response,
    pub(crate) body: Vec<u8>,
}

impl Raw {
    /// Connects, and says nothing.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { tcp: TcpStream::connect(address).await.unwrap(), received: Vec::new() }
    }

    /// Connects with a receive buffer that is soon full, and says nothing.
    pub(crate) async fn connect_narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self { tcp: socket.connect(address).await.unwrap(), received: Vec::new() }
    }

    /// Lets the receive buffer grow: from now on the client reads like others.
    pub(crate) fn widen(&self) {
        SockRef::from(&self.tcp).set_recv_buffer_size(1 << 20).unwrap();
    }

    /// Connects and says hello.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::connect(address).await.greet(&Hello::default()).await
    }

    /// Says hello and reads the settings.
    pub(crate) async fn greet(mut self, hello: &Hello) -> Self {
        self.send(&hello_frame(hello)).await;
        let answer = self.next().await.expect("the server answers a hello");
        assert_eq!(answer.head.op, ResponseOp::Settings, "{:?}", answer.text());
        Settings::decode(&answer.body).unwrap();
        self
    }

    /// Sends bytes, as far as the server lets it.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let sending = tokio::time::timeout(PATIENCE, self.tcp.write_all(bytes));
        _ = sending.await.expect("the server reads or closes");
    }

    /// The next frame; `None` once the server has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        let reading = tokio::time::timeout(PATIENCE, self.read_frame());
        reading.await.expect("the server answers or closes")
    }

    /// All frames until the server closes the connection.
    pub(crate) async fn rest(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.next().await {
            answers.push(answer);
        }
        answers
    }

    /// The reason that the server gives, after which it closes the connection.
    pub(crate) async fn farewell(&mut self) -> String {
        let answers = self.rest().await;
        let last = answers.last().expect("a goaway comes before the end");
        assert_eq!(last.head.op, ResponseOp::Goaway, "the last frame of {answers:?}");
        last.text()
    }

    /// Reads frames until the reply to call `id`, and gives that.
    pub(crate) async fn reply(&mut self, id: u64) -> Answer {
        loop {
            let answer = self.next().await.expect("the server answers before it closes");
            if answer.head.op == ResponseOp::Reply && answer.head.id == id {
                return answer;
            }
        }
    }

    /// Ends the connection so that the server learns of it by a reset.
    pub(crate) fn reset(self) {
        SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO)).unwrap();
    }

    async fn read_frame(&mut self) -> Option<Answer> {
        loop {
            match Response::decode(&self.received, u32::MAX) {
                Ok(head) if head.frame_len() <= self.received.len() => {
                    let rest = self.received.split_off(head.frame_len());
                    let frame = std::mem::replace(&mut self.received, rest);
                    return Some(Answer { head, body: frame[HEADER_LEN..].to_vec() });
                }
                Err(error) if !error.is_incomplete() => panic!("the server sent nonsense: {error}"),
                _ => {}
            }
            let mut buffer = vec![0; 64 << 10];
            match self.tcp.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(len) => self.received.extend_from_slice(&buffer[..len]),
            }
        }
    }
}

impl Answer {
    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// How the call ended, if this is the reply to one.
    pub(crate) fn status(&self) -> Option<Status> {
        (self.head.op == ResponseOp::Reply).then_some(self.head.status)
    }

    /// The window that it tells.
    pub(crate) fn window(&self) -> Option<u32> {
        match self.head.feedback {
            Feedback::Window { size, .. } => Some(size),
            _ => None,
        }
    }
}

/// A frame with this body.
pub(crate) fn frame(mut request: Request, body: &[u8]) -> Vec<u8> {
    request.body_len = body.len() as u32;
    let mut bytes = request.encode().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// A hello.
pub(crate) fn hello_frame(hello: &Hello) -> Vec<u8> {
    frame(Request::new(RequestOp::Hello), &hello.encode())
}

/// A call.
pub(crate) fn call(id: u64, method: u16, payload: &[u8]) -> Vec<u8> {
    let mut request = Request::new(RequestOp::Call);
    (request.claims.id, request.claims.method) = (id, method);
    frame(request, payload)
}

/// A frame without body that names a call.
pub(crate) fn short(op: RequestOp, id: u64) -> Vec<u8> {
    let mut request = Request::new(op);
    request.claims.id = id;
    frame(request, &[])
}
