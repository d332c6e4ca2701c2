//! A connection to a service of this process, through the loopback device.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seawall_control::wire::{Request, RequestOp};

use super::super::{Protocol, Service};

/// Requests are late after that, and those that shall be late are older than that.
const EXPECTED: Duration = Duration::from_millis(100);

pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
}

impl Link {
    pub(super) fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok(Self { client, server })
    }

    /// What the service at its end is called.
    pub(super) fn service(&self) -> io::Result<Service> {
        Ok(Service {
            name: "measured".into(),
            port: self.server.local_addr()?.port(),
            addresses: Vec::new(),
            protocol: Protocol::Native,
            expected: EXPECTED,
            downstream: Vec::new(),
        })
    }

    /// Sends a packet and receives the answer: in this thread, so that nobody is woken.
    pub(super) fn exchange(&mut self, request: &[u8], answer: &[u8]) -> io::Result<()> {
        self.client.write_all(request)?;
        self.server.read_exact(&mut vec![0; request.len()])?;
        self.server.write_all(answer)?;
        self.client.read_exact(&mut vec![0; answer.len()])
    }
}

/// A call whose job began so long ago.
pub(super) fn call(path: u16, passed: Duration) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut request = Request::new(RequestOp::Call);
    request.claims.path = path;
    request.claims.start_time_ns = super::super::nanos(now.saturating_sub(passed));
    request.encode().to_vec()
}

/// A call that is late.
pub(super) fn late(path: u16) -> Vec<u8> {
    call(path, 10 * EXPECTED)
}
