//! From a stream of bytes to commands, across any split of the stream.

use bytes::{Buf, BytesMut};

use super::command::Command;
use super::line::{self, Line, Storage};
use super::{ParseError, ProtocolError};

/// Longest command line, in bytes before its `\n`: as much as the largest value, and room for 4000
/// of the longest keys in one `get`. It bounds what a client can make the server buffer without
/// ever finishing a line.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// What ends a line and a data block.
const CRLF: &[u8] = b"\r\n";

/// Splits one connection's input into commands. See the [module](super) for what it does about
/// malformed input.
#[derive(Debug)]
pub struct Parser {
    state: State,
    /// Bytes at the front of the buffer that are known to hold no `\n`.
    scanned: usize,
    value_bytes_max: usize,
}

/// What the front of the buffer belongs to.
#[derive(Debug)]
enum State {
    /// A command line.
    Line,
    /// The data block of this storage command.
    Block(Storage),
    /// A data block that is of no use, so many bytes of it, and then a [`State::Remains`].
    Discard(usize),
    /// What is left of a line that is of no use.
    Remains,
}

impl Parser {
    /// A parser for a new connection, which refuses values of more than `value_bytes_max` bytes
    /// without buffering them.
    pub const fn new(value_bytes_max: usize) -> Self {
        Self { state: State::Line, scanned: 0, value_bytes_max }
    }

    /// Takes one request off the front of `buffer`; `None` if the buffer holds no whole one.
    ///
    /// Between calls the caller may append to the buffer, and nothing else.
    ///
    /// # Errors
    ///
    /// A malformed request, which has been taken off as well. The parser goes on with the next.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<Result<Command, ParseError>> {
        loop {
            match self.state {
                State::Line => {
                    if let Some(parsed) = self.line(buffer)? {
                        return Some(parsed);
                    }
                }
                State::Block(Storage { value_len, .. }) => {
                    let end = buffer.get(value_len..)?;
                    if end.len() < CRLF.len() && CRLF.starts_with(end) {
                        return None;
                    }
                    return Some(self.block(buffer));
                }
                State::Discard(len) => {
                    let part = len.min(buffer.len());
                    buffer.advance(part);
                    if part < len {
                        self.state = State::Discard(len - part);
                        return None;
                    }
                    self.state = State::Remains;
                }
                State::Remains => match memchr::memchr(b'\n', buffer) {
                    Some(end) => {
                        buffer.advance(end + 1);
                        self.state = State::Line;
                    }
                    None => {
                        buffer.clear();
                        return None;
                    }
                },
            }
        }
    }

    /// How many bytes must at least be appended to a buffer of `buffered` bytes before
    /// [`next`](Self::next) can answer anew. Lets a reader make room for a large value at once.
    pub fn bytes_wanted(&self, buffered: usize) -> usize {
        match &self.state {
            State::Block(storage) => {
                (storage.value_len + CRLF.len()).saturating_sub(buffered).max(1)
            }
            State::Line | State::Discard(_) | State::Remains => 1,
        }
    }

    /// True when `next` is about to look for a new command: what has come of the one before was
    /// whole. With an empty buffer, nothing of a command has come then.
    pub const fn is_between_commands(&self) -> bool {
        matches!(self.state, State::Line)
    }

    /// A command line. The outer `None` asks for more bytes; the inner one says that a data block
    /// has to be read first.
    fn line(&mut self, buffer: &mut BytesMut) -> Option<Option<Result<Command, ParseError>>> {
        let too_long = ParseError { error: ProtocolError::LineTooLong, noreply: false };
        let Some(offset) = memchr::memchr(b'\n', &buffer[self.scanned..]) else {
            self.scanned = buffer.len();
            if buffer.len() <= LINE_BYTES_MAX {
                return None;
            }
            buffer.clear();
            self.scanned = 0;
            self.state = State::Remains;
            return Some(Some(Err(too_long)));
        };
        let end = self.scanned + offset;
        self.scanned = 0;
        let mut line = buffer.split_to(end + 1).freeze();
        if end > LINE_BYTES_MAX {
            return Some(Some(Err(too_long)));
        }
        // Like memcached, take a bare `\n` for the end of a line as well.
        line.truncate(if line[..end].ends_with(b"\r") { end - 1 } else { end });
        Some(match line::parse(&line) {
            Ok(Line::Complete(command)) => Some(Ok(command)),
            Ok(Line::Storage(storage)) if storage.value_len > self.value_bytes_max => {
                self.state = State::Discard(storage.value_len);
                let Storage { mode, key, noreply, .. } = storage;
                Some(Ok(Command::StoreTooLarge { mode, key, noreply }))
            }
            Ok(Line::Storage(storage)) => {
                self.state = State::Block(storage);
                None
            }
            Err(bad) => {
                if let Some(len) = bad.block_len {
                    self.state = State::Discard(len);
                }
                Some(Err(bad.error))
            }
        })
    }

    /// A data block that is wholly in the buffer, with as much of what follows it as tells whether
    /// it ends there.
    fn block(&mut self, buffer: &mut BytesMut) -> Result<Command, ParseError> {
        let State::Block(storage) = core::mem::replace(&mut self.state, State::Line) else {
            unreachable!("called in this state only");
        };
        let value = buffer.split_to(storage.value_len).freeze();
        let Storage { mode, key, flags, exptime, noreply, .. } = storage;
        if !buffer.starts_with(CRLF) {
            self.state = State::Remains;
            return Err(ParseError { error: ProtocolError::BadDataChunk, noreply });
        }
        buffer.advance(CRLF.len());
        Ok(Command::Store { mode, key, value, flags, exptime, noreply })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a parser makes of `input`, one character per request: a letter or `!` for an error.
    fn shape(input: &str) -> String {
        let mut buffer = BytesMut::from(input);
        let mut parser = Parser::new(100);
        let parsed = core::iter::from_fn(|| parser.next(&mut buffer));
        let letters = parsed.map(|result| match result {
            Ok(Command::Get { .. }) => 'g',
            Ok(Command::Store { .. }) => 's',
            Ok(Command::StoreTooLarge { .. }) => 't',
            Ok(Command::Version) => 'v',
            Ok(other) => panic!("{other:?}"),
            Err(_) => '!',
        });
        let shape = letters.collect();
        assert_eq!(buffer, "", "all of the input is consumed");
        shape
    }

    #[test]
    fn pipelined_requests_come_out_in_order() {
        assert_eq!(shape("get a\r\nset b 0 0 2\r\nhi\r\nversion\nget c d\r\n"), "gsvg");
    }

    #[test]
    fn blocks_may_hold_line_ends() {
        assert_eq!(shape("set b 0 0 9\r\nget a\r\n\r\n\r\nversion\r\n"), "sv");
    }

    #[test]
    fn a_block_of_the_wrong_length_costs_one_error() {
        assert_eq!(shape("set b 0 0 2\r\nlonger\r\nversion\r\n"), "!v");
        assert_eq!(shape("set b 0 0 9\r\nshort\r\nget a\r\nversion\r\n"), "!v");
        assert_eq!(shape("set b 0 0 2\r\nhi\nversion\r\n"), "!v");
    }

    #[test]
    fn useless_blocks_are_discarded() {
        let large = "x".repeat(101);
        assert_eq!(shape(&format!("set b 0 0 101\r\n{large}\r\nversion\r\n")), "tv");
        assert_eq!(shape("set b nonsense 0 9\r\nget a\r\n\r\n\r\nversion\r\n"), "!v");
        let key = "k".repeat(251);
        assert_eq!(shape(&format!("set {key} 0 0 2\r\nhi\r\nversion\r\n")), "!v");
    }

    #[test]
    fn a_long_line_is_refused_before_it_ends() {
        let mut parser = Parser::new(100);
        let mut buffer = BytesMut::new();
        buffer.resize(LINE_BYTES_MAX, b'x');
        assert_eq!(parser.next(&mut buffer), None);
        buffer.extend_from_slice(b"x");
        let refused = parser.next(&mut buffer).unwrap().unwrap_err();
        assert_eq!(refused.error, ProtocolError::LineTooLong);
        assert!(buffer.is_empty());
        buffer.extend_from_slice(b"xxxxxx\r\nversion\r\n");
        assert_eq!(parser.next(&mut buffer), Some(Ok(Command::Version)));
    }

    #[test]
    fn the_reader_learns_how_much_is_missing() {
        let mut parser = Parser::new(100);
        let mut buffer = BytesMut::from("set k 0 0 50\r\n12345");
        assert_eq!(parser.bytes_wanted(0), 1);
        assert!(parser.is_between_commands());
        assert_eq!(parser.next(&mut buffer), None);
        assert_eq!(parser.bytes_wanted(buffer.len()), 47);
        assert!(!parser.is_between_commands());
    }

    #[test]
    fn values_are_slices_of_the_input() {
        let mut buffer = BytesMut::from("set k 0 0 5\r\nhello\r\n");
        let range = buffer.as_ptr_range();
        let parsed = Parser::new(100).next(&mut buffer).unwrap().unwrap();
        let Command::Store { key, value, .. } = parsed else { panic!() };
        assert!(range.contains(&key.as_ptr()) && range.contains(&value.as_ptr()));
    }
}
