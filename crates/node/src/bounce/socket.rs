//! What the kernel tells of a TCP socket.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::size_of;

use nix::libc;

/// How much of `struct tcp_info` is read: up to `tcpi_bytes_acked`, which is the last of these.
const TCP_INFO_WORDS: usize = 16;

/// Reads of a pair of numbers that change, until they belong together.
const TRIES: usize = 100;

/// A number that no other socket has.
pub(super) fn cookie(socket: i32) -> io::Result<u64> {
    Ok(option::<1>(socket, libc::SOL_SOCKET, libc::SO_COOKIE)?[0])
}

/// Bytes that were ever written to it, by whomever.
pub(super) fn written(socket: i32) -> io::Result<u64> {
    // What was acknowledged, and what was not yet: an acknowledgement may come in between.
    let mut acked = bytes_acked(socket)?;
    for _ in 0..TRIES {
        let waiting = unacknowledged(socket)?;
        let after = bytes_acked(socket)?;
        if acked == after {
            return Ok(acked + waiting);
        }
        acked = after;
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Has the kernel parse what has come.
pub(super) fn look_again(socket: i32) -> io::Result<()> {
    // To set this, to what it is anyway, tells the socket's reader of all that is there.
    let one: c_int = 1;
    // SAFETY: the option is an int, and lives until the call returns.
    let done = unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const one).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    checked(done)
}

fn bytes_acked(socket: i32) -> io::Result<u64> {
    let info = option::<TCP_INFO_WORDS>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(info[TCP_INFO_WORDS - 1])
}

fn unacknowledged(socket: i32) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: the request writes an int.
    checked(unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut bytes) })?;
    u64::try_from(bytes).map_err(io::Error::other)
}

/// The first words of an option, all of which the kernel has to know.
fn option<const WORDS: usize>(socket: i32, level: c_int, name: c_int) -> io::Result<[u64; WORDS]> {
    let mut words = [0_u64; WORDS];
    let mut len = size_of::<[u64; WORDS]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, for which there is room; all are numbers.
    let done = unsafe {
        libc::getsockopt(socket, level, name, words.as_mut_ptr().cast::<c_void>(), &raw mut len)
    };
    checked(done)?;
    if (len as usize) < size_of::<[u64; WORDS]>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(words)
}

fn checked(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn all_that_was_written_is_counted_whether_it_was_read_or_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let socket = server.as_raw_fd();
        assert_ne!(cookie(socket).unwrap(), cookie(client.as_raw_fd()).unwrap());
        let before = written(socket).unwrap();
        for _ in 0..50 {
            server.write_all(&[7; 1000]).unwrap();
        }
        assert_eq!(written(socket).unwrap() - before, 50_000);
        client.read_exact(&mut [0; 50_000]).unwrap();
        assert_eq!(written(socket).unwrap() - before, 50_000);
        look_again(socket).unwrap();
    }
}
