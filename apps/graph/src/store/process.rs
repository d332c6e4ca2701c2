//! A store in a process of its own.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use seawall_measure::graph::Store;

/// How long a store may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether it does.
const TRY: Duration = Duration::from_millis(10);

/// A running store. It ends when this is dropped, and also when the thread that started it ends,
/// or its process is killed.
#[derive(Debug)]
pub struct StoreProcess {
    child: Child,
    address: SocketAddr,
}

/// Whether the store's program is there.
pub fn is_installed(store: Store) -> bool {
    let found = Command::new(program(store))
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

fn program(store: Store) -> &'static str {
    match store {
        Store::Redis => "redis-server",
        _ => "memcached",
    }
}

impl StoreProcess {
    /// Starts a store that keeps nothing on disk, at a free port of loopback, and waits until it
    /// listens.
    ///
    /// # Errors
    ///
    /// If it is not installed, or does not listen in time.
    pub fn start(store: Store) -> io::Result<Self> {
        // Neither tells which port it took. Between this and its start another may take it: then it
        // ends, which is told.
        let address = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let port = address.port().to_string();
        // setpriv is of util-linux, which every Linux has. The parent whose death counts is the
        // thread that starts it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program(store)]);
        match store {
            Store::Redis => command.args(["--bind", "127.0.0.1", "--port", &port]).args([
                "--save",
                "",
                "--appendonly",
                "no",
                "--daemonize",
                "no",
            ]),
            _ => command.args(["-l", "127.0.0.1", "-p", &port, "-U", "0", "-t", "1", "-m", "16"]),
        };
        // memcached does not run as root unless it is told to.
        if store != Store::Redis && nix::unistd::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| {
            let program = program(store);
            io::Error::new(error.kind(), format!("cannot start {program} by setpriv: {error}"))
        })?;
        let mut process = Self { child, address };
        process.wait(store)?;
        Ok(process)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn wait(&mut self, store: Store) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        let program = program(store);
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("{program} ended at its start ({status})")));
            }
            if Instant::now() > until {
                return Err(io::Error::other(format!("{program} does not listen")));
            }
            thread::sleep(TRY);
        }
        Ok(())
    }
}

impl Drop for StoreProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
