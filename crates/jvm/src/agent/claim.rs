//! One agent to a process, though its library may be there twice, from two files.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::OnceLock;

/// Held until the process ends.
static CLAIM: OnceLock<UnixListener> = OnceLock::new();

/// Claims the process for this copy of the library. False if another has it.
///
/// By an abstract name of the process: nothing is left of it when it ends, however it does. Where
/// there can be no such name, one is as good as claimed.
pub(super) fn claim() -> bool {
    let name = format!("seawall-agent-{}", std::process::id());
    let Ok(address) = SocketAddr::from_abstract_name(name) else { return true };
    match UnixListener::bind_addr(&address) {
        Ok(claim) => CLAIM.set(claim).is_ok(),
        Err(error) => error.kind() != std::io::ErrorKind::AddrInUse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_has_it_not() {
        assert_eq!([claim(), claim()], [true, false]);
    }
}
