//! One connection on which the kernel answers, too.

use std::fmt;
use std::io;
use std::sync::Arc;

use libbpf_rs::{MapCore, MapFlags, MapMut};
use seawall_control::Instant;
use seawall_control::bounce::{Bounced, Problem};

use super::socket;
use crate::programs::bounce::BounceSkel;

/// Bytes of a refusal.
const REFUSAL: u64 = 64;

/// What the kernel keeps of a connection: `struct connection` of the programs.
const KEPT: usize = 32;

pub(super) struct Connection {
    programs: Arc<BounceSkel<'static>>,
    /// Names the socket for as long as the machine runs.
    cookie: [u8; 8],
    socket: i32,
    /// What had been written to it when it was adopted.
    before: u64,
    is_held: bool,
}

impl Connection {
    pub(super) fn adopt(programs: Arc<BounceSkel<'static>>, socket: i32) -> Result<Self, Problem> {
        let cookie = socket::cookie(socket)?.to_ne_bytes();
        let before = socket::written(socket)?;
        // From here on it is forgotten again when something fails.
        let adopted = Self { programs, cookie, socket, before, is_held: true };
        let maps = &adopted.programs.maps;
        maps.connections.update(&cookie, &[0; KEPT], MapFlags::ANY)?;
        adopted.set_held(true)?;
        let descriptor = u64::try_from(socket)?.to_ne_bytes();
        maps.sockets.update(&cookie, &descriptor, MapFlags::ANY)?;
        // What came before has not been parsed.
        socket::look_again(socket)?;
        Ok(adopted)
    }

    fn kept(&self) -> Result<[u8; KEPT], Problem> {
        let mut kept = [0; KEPT];
        let found =
            self.programs.maps.connections.lookup_into(&self.cookie, &mut kept, MapFlags::ANY)?;
        if found { Ok(kept) } else { Err(io::Error::from(io::ErrorKind::NotFound).into()) }
    }

    fn set_held(&self, held: bool) -> libbpf_rs::Result<()> {
        let held = u32::from(held).to_ne_bytes();
        self.programs.maps.holds.update(&self.cookie, &held, MapFlags::ANY)
    }
}

impl Bounced for Connection {
    fn arrived(&self) -> Option<Instant> {
        let at = number(&self.kept().ok()?, 8);
        (at > 0).then(|| Instant::from_nanos(at))
    }

    fn hold(&mut self, written: u64) -> Result<bool, Problem> {
        if !self.is_held {
            self.set_held(true)?;
            self.is_held = true;
        }
        // In this order: what is refused after this is seen by neither.
        let refused = number(&self.kept()?, 0);
        let all = socket::written(self.socket)?.wrapping_sub(self.before);
        Ok(all.wrapping_sub(written) == refused * REFUSAL)
    }

    fn release(&mut self) -> Result<(), Problem> {
        if self.is_held {
            self.set_held(false)?;
            self.is_held = false;
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The socket itself leaves the kernel's table when it is closed.
        forget(&self.programs.maps.holds, &self.cookie);
        forget(&self.programs.maps.connections, &self.cookie);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cookie = u64::from_ne_bytes(self.cookie);
        f.debug_struct("Connection").field("cookie", &cookie).finish_non_exhaustive()
    }
}

fn forget(map: &MapMut<'_>, cookie: &[u8]) {
    // It may never have come there.
    _ = map.delete(cookie);
}

/// The number of eight bytes at `at`.
fn number(kept: &[u8; KEPT], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|index| kept[at + index]))
}
