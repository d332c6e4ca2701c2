//! What a service tells the agent about a late request, at once (SurgeGuard §IV-A).
//!
//! A kernel that runs the agent's eBPF program sees late requests by itself. Where there is none,
//! the library that receives them rings the agent's doorbell: one datagram of [`LATE_SIZE`] bytes
//! to the Unix socket `<folder>/agent.sock`, beside the pages. Nobody waits for it: when the socket
//! is full or absent, the bell is lost, and the service counts it.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Name of the agent's doorbell, beside the pages.
pub const DOORBELL: &str = "agent.sock";

/// Bytes of a [`Late`].
pub const LATE_SIZE: usize = 40;

const MAGIC: [u8; 4] = *b"SWLT";
const VERSION: u16 = 1;

/// A request came later than it should have: the record of the doorbell, and of the ring buffer of
/// the agent's eBPF program.
///
/// ```text
///   0  magic "SWLT"       4  version u16    6  path u16        8  pid u32   12  port u32
///  16  at_ns u64 (monotonic)               24  late_by_ns u64             32  namespace u64
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Path of the request, as its header says.
    pub path: u16,
    /// Process that received it, in its own namespace; 0 where only the port is known.
    pub pid: u32,
    /// Port on which it came in.
    pub port: u16,
    /// When, monotonic nanoseconds.
    pub at_ns: u64,
    /// By how much it was late, nanoseconds.
    pub late_by_ns: u64,
    /// PID namespace of the process; 0 where it is not known.
    pub namespace: u64,
}

/// Why a record is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotLate {
    /// It has another length.
    #[error("it has {0} bytes; a record has {LATE_SIZE}")]
    Size(usize),
    /// It begins otherwise.
    #[error("it does not begin with SWLT")]
    Magic,
    /// It is of a version that is not known here.
    #[error("it is of version {0}; this program knows version {VERSION}")]
    Version(u16),
    /// Its port is none.
    #[error("{0} is no port; ports are 0 to 65535")]
    Port(u32),
}

impl Late {
    /// The record as it is sent.
    pub fn to_bytes(&self) -> [u8; LATE_SIZE] {
        let mut bytes = [0; LATE_SIZE];
        let mut put = |offset: usize, field: &[u8]| {
            bytes[offset..offset + field.len()].copy_from_slice(field);
        };
        put(0, &MAGIC);
        put(4, &VERSION.to_le_bytes());
        put(6, &self.path.to_le_bytes());
        put(8, &self.pid.to_le_bytes());
        put(12, &u32::from(self.port).to_le_bytes());
        put(16, &self.at_ns.to_le_bytes());
        put(24, &self.late_by_ns.to_le_bytes());
        put(32, &self.namespace.to_le_bytes());
        bytes
    }

    /// Reads a record that anybody may have sent.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotLate> {
        let bytes: &[u8; LATE_SIZE] = bytes.try_into().map_err(|_| NotLate::Size(bytes.len()))?;
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        if bytes[..4] != MAGIC {
            return Err(NotLate::Magic);
        }
        if half(4) != VERSION {
            return Err(NotLate::Version(half(4)));
        }
        Ok(Self {
            path: half(6),
            pid: word(8),
            port: u16::try_from(word(12)).map_err(|_| NotLate::Port(word(12)))?,
            at_ns: long(16),
            late_by_ns: long(24),
            namespace: long(32),
        })
    }
}

/// A service's end of the agent's doorbell.
#[derive(Debug)]
pub struct Doorbell {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Doorbell {
    /// The doorbell beside the pages in `folder`. The agent need not be there yet.
    ///
    /// # Errors
    ///
    /// When the process has no file descriptor left.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: folder.join(DOORBELL) })
    }

    /// Rings, without waiting; says whether it was heard.
    pub fn ring(&self, late: &Late) -> bool {
        // The agent may have come, gone and come again: the path is looked up each time.
        self.socket.send_to(&late.to_bytes(), &self.path).is_ok_and(|sent| sent == LATE_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: Late = Late {
        path: 0x0102,
        pid: 0x0304_0506,
        port: 0x0708,
        at_ns: 0x1112_1314_1516_1718,
        late_by_ns: 0x2122_2324_2526_2728,
        namespace: 0x3132_3334_3536_3738,
    };

    #[test]
    fn a_record_has_these_bytes() {
        let bytes = [
            b'S', b'W', b'L', b'T', 1, 0, 2, 1, 6, 5, 4, 3, 8, 7, 0, 0, 0x18, 0x17, 0x16, 0x15,
            0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x38, 0x37,
            0x36, 0x35, 0x34, 0x33, 0x32, 0x31,
        ];
        assert_eq!(EXAMPLE.to_bytes(), bytes);
        assert_eq!(Late::parse(&bytes), Ok(EXAMPLE));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let bytes = EXAMPLE.to_bytes();
        assert_eq!(Late::parse(&bytes[..39]), Err(NotLate::Size(39)));
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[at] = byte;
            Late::parse(&bytes)
        };
        assert_eq!(with(0, b'T'), Err(NotLate::Magic));
        assert_eq!(with(4, 2), Err(NotLate::Version(2)));
        assert_eq!(with(14, 1), Err(NotLate::Port(0x1_0708)));
    }

    #[test]
    fn the_bell_is_lost_where_nobody_listens_and_heard_where_somebody_does() {
        let folder = tempfile::tempdir().unwrap();
        let bell = Doorbell::new(folder.path()).unwrap();
        assert!(!bell.ring(&EXAMPLE));

        let agent = UnixDatagram::bind(folder.path().join(DOORBELL)).unwrap();
        assert!(bell.ring(&EXAMPLE));
        let mut bytes = [0; 64];
        let length = agent.recv(&mut bytes).unwrap();
        assert_eq!(Late::parse(&bytes[..length]), Ok(EXAMPLE));
    }

    #[test]
    fn a_full_socket_loses_the_bell_and_makes_nobody_wait() {
        let folder = tempfile::tempdir().unwrap();
        let _agent = UnixDatagram::bind(folder.path().join(DOORBELL)).unwrap();
        let bell = Doorbell::new(folder.path()).unwrap();
        assert!((0..100_000).any(|_| !bell.ring(&EXAMPLE)));
    }
}
