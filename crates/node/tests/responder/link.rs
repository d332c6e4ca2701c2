//! A connection through which packets go one by one, and what is put into them.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seawall_control::wire::{Request, RequestOp};

/// Both ends of a connection to a service of this process.
pub(crate) struct Link {
    client: TcpStream,
    server: TcpStream,
    _listener: TcpListener,
}

impl Link {
    pub(crate) fn open() -> Self {
        Self::at(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
    }

    pub(crate) fn at(ip: IpAddr, port: u16) -> Self {
        let listener = TcpListener::bind(SocketAddr::new(ip, port)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { client, server, _listener: listener }
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.local_addr().unwrap().port()
    }

    /// Sends this in one packet, which has been seen when this returns.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).unwrap();
        let mut come = vec![0; bytes.len()];
        self.server.read_exact(&mut come).unwrap();
        assert!(come == bytes, "a packet has changed on its way");
    }

    /// The service answers.
    pub(crate) fn answer(&mut self, bytes: &[u8]) {
        self.server.write_all(bytes).unwrap();
        self.client.read_exact(&mut vec![0; bytes.len()]).unwrap();
    }
}

/// The time since the epoch, so long ago.
pub(crate) fn ago(passed: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from((now - passed).as_nanos()).unwrap()
}

/// A call whose job began then.
pub(crate) fn call(path: u16, start_time_ns: u64) -> Vec<u8> {
    frame(RequestOp::Call, path, start_time_ns)
}

pub(crate) fn frame(op: RequestOp, path: u16, start_time_ns: u64) -> Vec<u8> {
    let mut request = Request::new(op);
    request.claims.path = path;
    request.claims.start_time_ns = start_time_ns;
    request.encode().to_vec()
}

/// A Thrift call of this method, framed, with the paper's leading arguments.
pub(crate) fn thrift(method: &str, flow: u8, start_time_ns: u64) -> Vec<u8> {
    let mut message = vec![0x80, 0x01, 0x00, 0x01];
    message.extend(u32::try_from(method.len()).unwrap().to_be_bytes());
    message.extend(method.as_bytes());
    message.extend(77_u32.to_be_bytes());
    message.extend([3, 0, 1, flow]);
    message.extend([10, 0, 2]);
    message.extend(start_time_ns.to_be_bytes());
    message.extend([6, 0, 3, 0, 5, 0]);
    let mut framed = u32::try_from(message.len()).unwrap().to_be_bytes().to_vec();
    framed.extend(message);
    framed
}
