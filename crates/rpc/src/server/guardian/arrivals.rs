//! What the patrol waits for besides time: that a debtor has repaid, and, while somebody is
//! starved, that bytes come.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Connections whose news one call takes note of.
const EVENTS: usize = 64;

/// Such calls for one wait. More connections have news at the next wait, too.
const CALLS: usize = 16;

/// News of the connections of a server. Nobody else sees fewer for that: each who waits for a
/// socket is told by the kernel.
#[derive(Debug)]
pub(in crate::server) struct Arrivals {
    connections: Epoll,
    repaid: EventFd,
}

impl Arrivals {
    /// Of no connection yet.
    ///
    /// # Errors
    ///
    /// The system gives no more descriptors.
    pub(super) fn new() -> io::Result<Self> {
        let connections = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let repaid = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { connections, repaid })
    }

    /// Bytes that come on this connection are news, until it is closed.
    ///
    /// # Errors
    ///
    /// The system watches no more descriptors for this user.
    pub(super) fn watch(&self, connection: impl AsFd) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        Ok(self.connections.add(connection, event)?)
    }

    /// A debtor has repaid: the patrol waits no longer.
    pub(super) fn tell_repaid(&self) {
        // It is full after 2^64 - 1 loans that nobody took back.
        _ = self.repaid.write(1);
    }

    /// Waits for so long at most; less if somebody repays or, if it `heeds` that, bytes come. True
    /// if they did.
    pub(super) fn wait(&self, timeout: Duration, heeds: bool) -> bool {
        let mut polled = [
            PollFd::new(self.repaid.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.connections.0.as_fd(), PollFlags::POLLIN),
        ];
        let count = if heeds { 2 } else { 1 };
        if ppoll(&mut polled[..count], Some(timeout.into()), None).unwrap_or(0) == 0 {
            return false;
        }
        let [has_repaid, has_come] = polled.map(|it| it.any().unwrap_or(false));
        if has_repaid {
            _ = self.repaid.read();
        }
        if has_come {
            self.take_note();
        }
        has_come
    }

    /// Lets what has come be no news any more.
    fn take_note(&self) {
        let mut events = [EpollEvent::empty(); EVENTS];
        for _ in 0..CALLS {
            let noted = self.connections.wait(&mut events, EpollTimeout::ZERO);
            if noted.unwrap_or(0) < EVENTS {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const SOON: Duration = Duration::from_millis(20);
    const LATE: Duration = Duration::from_secs(60);

    #[test]
    fn bytes_are_news_once_and_only_to_who_heeds_them() {
        let arrivals = Arrivals::new().unwrap();
        let (mut client, mut server) = UnixStream::pair().unwrap();
        arrivals.watch(&server).unwrap();
        assert!(!arrivals.wait(SOON, true));
        client.write_all(b"a").unwrap();
        assert!(!arrivals.wait(SOON, false));
        assert!(arrivals.wait(LATE, true), "what came before it heeded them is news");
        assert!(!arrivals.wait(SOON, true), "the same byte");
        client.write_all(b"b").unwrap();
        assert!(arrivals.wait(LATE, true), "though the first is not read");
        client.write_all(b"c").unwrap();
        server.read_exact(&mut [0; 3]).unwrap();
        assert!(!arrivals.wait(SOON, true), "it was read");
        drop(server);
        assert!(!arrivals.wait(SOON, true), "it was closed");
    }

    #[test]
    fn who_repays_ends_the_wait() {
        let arrivals = Arrivals::new().unwrap();
        arrivals.tell_repaid();
        let began = std::time::Instant::now();
        assert!(!arrivals.wait(LATE, true));
        assert!(began.elapsed() < LATE);
        assert!(!arrivals.wait(SOON, true));
    }
}
