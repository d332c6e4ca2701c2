//! One agent to a process, though its library may be there twice, from two files.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::OnceLock;

use seawall_abi::process::Process;

/// Held until the process ends.
static CLAIM: OnceLock<UnixListener> = OnceLock::new();

/// Claims the process for this copy of the library. False if another has it.
///
/// By an abstract name of the process: nothing is left of it when it ends, however it does. Such
/// names are those of a network, which containers may share in which all are process 1. Where there
/// can be no such name, one is as good as claimed.
pub(super) fn claim() -> bool {
    let Ok(Process { pid, start_ticks, namespace }) = Process::this() else { return true };
    let name = format!("seawall-agent-{namespace}-{pid}-{start_ticks}");
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
