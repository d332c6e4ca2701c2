//! The replies of the text protocol, appended to an output buffer.

use core::fmt::{Display, Write};

use bytes::{BufMut, BytesMut};

use crate::store::Value;

/// The answer to `version`. Stock clients parse the leading number to learn what they may ask for,
/// so it begins with that of the memcached whose text protocol this is.
pub const VERSION: &str = concat!("1.6.0-seawall-", env!("CARGO_PKG_VERSION"));

/// A reply of one line, or the line that ends a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// A storage command has stored.
    Stored,
    /// A storage command's condition did not hold.
    NotStored,
    /// A `cas` found a newer version.
    Exists,
    /// There is no such item.
    NotFound,
    /// A `delete` has deleted.
    Deleted,
    /// A `touch` has found its item.
    Touched,
    /// Done.
    Ok,
    /// The end of a reply of several lines.
    End,
    /// The result of `incr` or `decr`.
    Number(u64),
    /// The server's version, [`VERSION`].
    Version,
    /// No such command.
    Error,
    /// The value to increment or decrement is not a number.
    NotNumeric,
    /// The item exceeds the largest that can be stored.
    TooLarge,
    /// The memory limit is reached and nothing can be evicted.
    OutOfMemory,
    /// The reply to a lookup exceeds its bound.
    ReplyTooLarge,
    /// The server refused the request because it could not have answered in time. Nothing has
    /// changed.
    Overloaded,
    /// The server has a defect; whether anything has changed is unknown.
    Failed,
    /// A command began and its end did not come in time.
    Incomplete,
    /// The server takes no more connections.
    TooManyConnections,
}

impl Reply {
    /// Appends the line.
    pub fn write(self, out: &mut BytesMut) {
        let fixed = match self {
            Self::Number(number) => return line(out, number),
            Self::Version => return line(out, format_args!("VERSION {VERSION}")),
            Self::Stored => "STORED\r\n",
            Self::NotStored => "NOT_STORED\r\n",
            Self::Exists => "EXISTS\r\n",
            Self::NotFound => "NOT_FOUND\r\n",
            Self::Deleted => "DELETED\r\n",
            Self::Touched => "TOUCHED\r\n",
            Self::Ok => "OK\r\n",
            Self::End => "END\r\n",
            Self::Error => "ERROR\r\n",
            Self::NotNumeric => "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            Self::TooLarge => "SERVER_ERROR object too large for cache\r\n",
            Self::OutOfMemory => "SERVER_ERROR out of memory storing object\r\n",
            Self::ReplyTooLarge => "SERVER_ERROR out of memory writing get response\r\n",
            Self::Overloaded => "SERVER_ERROR overloaded\r\n",
            Self::Failed => "SERVER_ERROR internal error\r\n",
            Self::Incomplete => "CLIENT_ERROR command not completed in time\r\n",
            Self::TooManyConnections => "SERVER_ERROR too many connections\r\n",
        };
        out.put_slice(fixed.as_bytes());
    }
}

/// Appends `content` as a line of its own. It must not contain a line end.
pub fn line(out: &mut BytesMut, content: impl Display) {
    writeln(out, format_args!("{content}"));
}

/// Appends one found item. With `cas`, its number is shown.
pub fn value(out: &mut BytesMut, key: &[u8], value: &Value, with_cas: bool) {
    // One growth for all of it: the numbers and separators take at most 49 bytes.
    out.reserve(key.len() + value.data.len() + 64);
    out.put_slice(b"VALUE ");
    out.put_slice(key);
    number(out, u64::from(value.flags));
    number(out, value.data.len() as u64);
    if with_cas {
        number(out, value.cas);
    }
    out.put_slice(b"\r\n");
    out.put_slice(&value.data);
    out.put_slice(b"\r\n");
}

/// Appends one statistic. Neither part may contain a line end, nor `name` a space. After the last,
/// send [`Reply::End`].
pub fn stat(out: &mut BytesMut, name: impl Display, value: impl Display) {
    writeln(out, format_args!("STAT {name} {value}"));
}

fn number(out: &mut BytesMut, number: u64) {
    out.put_u8(b' ');
    out.put_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn writeln(out: &mut BytesMut, content: core::fmt::Arguments<'_>) {
    write!(out, "{content}\r\n").expect("a BytesMut grows as needed");
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn values_are_framed_by_their_length() {
        let found = Value { data: Bytes::from_static(b"a\r\nb"), flags: 7, cas: 42 };
        let mut out = BytesMut::new();
        value(&mut out, b"key", &found, false);
        value(&mut out, b"key", &found, true);
        Reply::End.write(&mut out);
        assert_eq!(out, "VALUE key 7 4\r\na\r\nb\r\nVALUE key 7 4 42\r\na\r\nb\r\nEND\r\n");
    }

    #[test]
    fn one_reservation_is_enough_for_the_longest_value_line() {
        let found = Value { data: Bytes::new(), flags: u32::MAX, cas: u64::MAX };
        let mut out = BytesMut::with_capacity(0);
        value(&mut out, b"", &found, true);
        assert!(out.len() <= 64, "{}", out.len());
    }

    #[test]
    fn errors_carry_the_prefix_that_clients_look_for() {
        for (reply, prefix) in [
            (Reply::TooLarge, "SERVER_ERROR "),
            (Reply::OutOfMemory, "SERVER_ERROR "),
            (Reply::ReplyTooLarge, "SERVER_ERROR "),
            (Reply::Overloaded, "SERVER_ERROR overloaded\r\n"),
            (Reply::Failed, "SERVER_ERROR "),
            (Reply::TooManyConnections, "SERVER_ERROR "),
            (Reply::NotNumeric, "CLIENT_ERROR "),
            (Reply::Incomplete, "CLIENT_ERROR "),
        ] {
            let mut out = BytesMut::new();
            reply.write(&mut out);
            assert!(out.starts_with(prefix.as_bytes()) && out.ends_with(b"\r\n"), "{out:?}");
        }
    }

    #[test]
    fn versions_start_with_the_numbers_of_memcached() {
        let mut out = BytesMut::new();
        Reply::Version.write(&mut out);
        assert!(out.starts_with(b"VERSION 1.6.0-seawall-"), "{out:?}");
    }
}
