//! The replies of the text protocol, appended to an output buffer.

use core::fmt::{Display, Write};

use bytes::{BufMut, BytesMut};

use crate::store::Value;

/// A reply of one fixed line. Displayed as that line, without its end.
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
}

impl Reply {
    /// The line without its end.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "STORED",
            Self::NotStored => "NOT_STORED",
            Self::Exists => "EXISTS",
            Self::NotFound => "NOT_FOUND",
            Self::Deleted => "DELETED",
            Self::Touched => "TOUCHED",
            Self::Ok => "OK",
            Self::End => "END",
            Self::Error => "ERROR",
            Self::NotNumeric => {
                "CLIENT_ERROR cannot increment or decrement non-numeric value"
            }
            Self::TooLarge => "SERVER_ERROR object too large for cache",
            Self::OutOfMemory => "SERVER_ERROR out of memory storing object",
            Self::ReplyTooLarge => "SERVER_ERROR out of memory writing get response",
            Self::Overloaded => "SERVER_ERROR overloaded",
        }
    }

    /// Appends the line.
    pub fn write(self, out: &mut BytesMut) {
        out.put_slice(self.as_str().as_bytes());
        out.put_slice(b"\r\n");
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
        for reply in
            [Reply::TooLarge, Reply::OutOfMemory, Reply::ReplyTooLarge, Reply::Overloaded]
        {
            assert!(reply.as_str().starts_with("SERVER_ERROR "));
        }
        assert!(Reply::NotNumeric.as_str().starts_with("CLIENT_ERROR "));
    }
}
