//! What the tests over real connections share.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use seawall_control::admission;
use seawall_control::request::{Claims, Context};
use seawall_kv::server::{KvConfig, KvServer};
use seawall_rpc::Guest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

/// A reply that does not come within this time does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on free ports of loopback, with one worker beside one thread that reads and writes.
pub(crate) fn config(algorithm: &str) -> KvConfig {
    let free_port = ([127, 0, 0, 1], 0).into();
    let mut config = KvConfig { memcached: Some(free_port), ..KvConfig::default() };
    config.server.listen = free_port;
    config.server.slo = Duration::from_secs(5);
    config.server.admission = admission::Config::named(algorithm);
    (config.server.threads.workers, config.server.threads.dispatchers) = (1, 1);
    config
}

/// A request that may wait for ever.
pub(crate) fn patient() -> Context {
    Context::new(Claims::default(), seawall_control::Instant::ORIGIN)
}

/// The same with several workers, so that commands of one connection run at once.
pub(crate) fn parallel() -> KvConfig {
    let mut config = config("none");
    (config.server.threads.workers, config.server.threads.dispatchers) = (3, 2);
    config
}

pub(crate) fn start(config: KvConfig) -> KvServer {
    KvServer::start(config).unwrap()
}

/// A memcached client.
pub(crate) struct Client {
    tcp: TcpStream,
}

impl Client {
    pub(crate) async fn connect(server: &KvServer) -> Self {
        let tcp = TcpStream::connect(server.memcached_address().unwrap()).await.unwrap();
        Self { tcp }
    }

    /// The same with so small a receive buffer that the server notices what is not read.
    pub(crate) async fn connect_narrow(server: &KvServer) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self { tcp: socket.connect(server.memcached_address().unwrap()).await.unwrap() }
    }

    /// Reads so many bytes of whatever comes.
    pub(crate) async fn read(&mut self, bytes: usize) {
        let mut got = vec![0; bytes];
        let reading = tokio::time::timeout(PATIENCE, self.tcp.read_exact(&mut got));
        reading.await.expect("bytes in time").expect("bytes");
    }

    pub(crate) async fn send(&mut self, request: impl AsRef<[u8]>) {
        self.tcp.write_all(request.as_ref()).await.unwrap();
    }

    /// The next reply must be this, and no byte less.
    #[track_caller]
    pub(crate) fn expect(&mut self, reply: impl AsRef<[u8]>) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let expected = reply.as_ref();
            let mut got = vec![0; expected.len()];
            let reading = tokio::time::timeout(PATIENCE, self.tcp.read_exact(&mut got));
            reading.await.expect("a reply in time").expect("a reply");
            let text = String::from_utf8_lossy(&got[..got.len().min(1000)]);
            assert!(got == expected, "at {caller}: {text}");
        }
    }

    /// The server must close the connection after this.
    pub(crate) async fn expect_last(&mut self, reply: &str) {
        let mut got = Vec::new();
        let reading = tokio::time::timeout(PATIENCE, self.tcp.read_to_end(&mut got));
        reading.await.expect("an end in time").expect("an orderly end");
        assert_eq!(String::from_utf8_lossy(&got), reply);
    }

    /// One line of a reply.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        while !line.ends_with('\n') {
            let reading = tokio::time::timeout(PATIENCE, self.tcp.read_u8());
            line.push(char::from(reading.await.expect("a line in time").expect("a line")));
        }
        line
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn half_close(&mut self) {
        self.tcp.shutdown().await.unwrap();
    }

    /// Ends as if the process had been killed with data unread: by a reset.
    pub(crate) fn reset(self) {
        self.tcp.set_zero_linger().unwrap();
    }
}

/// Keeps the only worker busy until dropped.
pub(crate) struct Block {
    _release: mpsc::Sender<()>,
    _guest: Guest,
}

impl Block {
    pub(crate) async fn new(server: &KvServer) -> Self {
        let mut guest = server.guests().open().unwrap();
        let (release, released) = mpsc::channel::<()>();
        let (start, started) = oneshot::channel();
        guest.submit(0, |_| async move {
            start.send(()).unwrap();
            let _ = released.recv();
            Ok(Bytes::new())
        });
        started.await.unwrap();
        Self { _release: release, _guest: guest }
    }
}

/// Waits until `condition` holds: for events that nothing announces.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "what was waited for did not happen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Nothing may be left of clients that are gone.
pub(crate) async fn expect_nothing_left(server: &KvServer) {
    until(|| server.stats().sessions == 0).await;
    let stats = server.stats();
    assert_eq!(stats.outstanding, 0);
    let ended = stats.completions + stats.failures + stats.cancellations + stats.refused();
    assert_eq!(stats.requests, ended, "each request ends once: {stats:?}");
    let issued = stats.controller.iter().find(|(name, _)| *name == "credits_issued");
    assert!(issued.is_none_or(|(_, issued)| issued.abs() < 0.5), "credits leaked: {issued:?}");
}
