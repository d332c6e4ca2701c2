//! One command line: its words, and what they mean.

use bytes::Bytes;

use super::command::{Arithmetic, Command, Keys};
use super::{ParseError, ProtocolError};
use crate::store::{KEY_BYTES_MAX, StoreMode};
use crate::time::Exptime;

/// Words after a command's name that are told apart; no command but the lookups has more.
const ARGS_MAX: usize = 6;

/// The longest data block that a line can announce, as in memcached (`INT_MAX - 2`).
const BLOCK_BYTES_MAX: u64 = i32::MAX as u64 - 2;

/// What a line says.
#[derive(Debug)]
pub(super) enum Line {
    /// A whole command.
    Complete(Command),
    /// A storage command, whose data block follows.
    Storage(Storage),
}

/// The first line of a storage command.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) mode: StoreMode,
    pub(super) key: Bytes,
    pub(super) flags: u32,
    pub(super) exptime: Exptime,
    pub(super) value_len: usize,
    pub(super) noreply: bool,
}

/// A line that makes no sense.
#[derive(Debug)]
pub(super) struct BadLine {
    pub(super) error: ParseError,
    /// A data block of this length seems to follow.
    pub(super) block_len: Option<usize>,
}

impl BadLine {
    fn new(error: ProtocolError, noreply: bool) -> Self {
        Self { error: ParseError { error, noreply }, block_len: None }
    }
}

impl From<ProtocolError> for BadLine {
    fn from(error: ProtocolError) -> Self {
        Self::new(error, false)
    }
}

/// Reads a line, which comes without its `\r\n`.
pub(super) fn parse(line: &Bytes) -> Result<Line, BadLine> {
    let Some(name) = words(line).next() else {
        return Err(ProtocolError::UnknownCommand.into());
    };
    let args = Args { line, rest: rest_after(line, name) };
    let command = match name {
        b"get" => lookup(&args, false)?,
        b"gets" => lookup(&args, true)?,
        b"gat" => lookup_and_touch(&args, false)?,
        b"gats" => lookup_and_touch(&args, true)?,
        b"set" => return storage(&args, StoreMode::Set),
        b"add" => return storage(&args, StoreMode::Add),
        b"replace" => return storage(&args, StoreMode::Replace),
        b"append" => return storage(&args, StoreMode::Append),
        b"prepend" => return storage(&args, StoreMode::Prepend),
        b"cas" => return storage(&args, StoreMode::Cas(0)),
        b"delete" => delete(&args)?,
        b"incr" => arithmetic(&args, Arithmetic::Increment)?,
        b"decr" => arithmetic(&args, Arithmetic::Decrement)?,
        b"touch" => touch(&args)?,
        b"stats" => {
            Command::Stats { topic: line.slice_ref(words(args.rest).next().unwrap_or(b"")) }
        }
        b"flush_all" => flush_all(&args)?,
        b"version" => Command::Version,
        b"verbosity" => verbosity(&args)?,
        b"quit" => Command::Quit,
        _ => return Err(ProtocolError::UnknownCommand.into()),
    };
    Ok(Line::Complete(command))
}

/// The words of a line: what its spaces separate.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
}

/// What follows `word`, which must be a part of `line`.
fn rest_after<'a>(line: &'a [u8], word: &[u8]) -> &'a [u8] {
    let end = word.as_ptr_range().end.addr() - line.as_ptr().addr();
    &line[end..]
}

/// The part of a line after the command's name.
#[derive(Debug)]
struct Args<'a> {
    line: &'a Bytes,
    rest: &'a [u8],
}

/// Its words, once it is known that there are few.
#[derive(Debug)]
struct Words<'a> {
    words: [&'a [u8]; ARGS_MAX],
    len: usize,
    noreply: bool,
}

impl<'a> Args<'a> {
    /// All words, of which there must be `min` to `max`. A last word `noreply` counts as such
    /// only after the first `min`: before, it could be a key.
    fn words(&self, min: usize, max: usize) -> Result<Words<'a>, ProtocolError> {
        let mut all = [&b""[..]; ARGS_MAX];
        let mut len = 0;
        for word in words(self.rest) {
            if len == max {
                return Err(ProtocolError::UnknownCommand);
            }
            all[len] = word;
            len += 1;
        }
        if len < min {
            return Err(ProtocolError::UnknownCommand);
        }
        let noreply = len > min && all[len - 1] == b"noreply";
        Ok(Words { words: all, len, noreply })
    }

    fn key(&self, word: &[u8]) -> Result<Bytes, ProtocolError> {
        check_key(word)?;
        Ok(self.line.slice_ref(word))
    }

    fn keys(&self, part: &[u8]) -> Result<Keys, ProtocolError> {
        let mut any = false;
        for word in words(part) {
            check_key(word)?;
            any = true;
        }
        if !any {
            return Err(ProtocolError::UnknownCommand);
        }
        Ok(Keys::new(self.line.slice_ref(part)))
    }
}

fn lookup(args: &Args<'_>, with_cas: bool) -> Result<Command, ProtocolError> {
    Ok(Command::Get { keys: args.keys(args.rest)?, with_cas })
}

fn lookup_and_touch(args: &Args<'_>, with_cas: bool) -> Result<Command, ProtocolError> {
    let word = words(args.rest).next().ok_or(ProtocolError::UnknownCommand)?;
    let exptime = exptime(word).ok_or(ProtocolError::BadExptime)?;
    Ok(Command::Gat { exptime, keys: args.keys(rest_after(args.rest, word))?, with_cas })
}

/// `<key> <flags> <exptime> <bytes> [<cas unique>] [noreply]`
fn storage(args: &Args<'_>, mode: StoreMode) -> Result<Line, BadLine> {
    let words_min = if matches!(mode, StoreMode::Cas(_)) { 5 } else { 4 };
    let words = args.words(words_min, words_min + 1)?;
    let [key, flags, exptime_word, len, cas, _] = words.words;
    let Some(value_len) = unsigned(len).filter(|&len| len <= BLOCK_BYTES_MAX) else {
        return Err(BadLine::new(ProtocolError::BadFormat, words.noreply));
    };
    let value_len = value_len as usize;
    let read = || -> Option<Line> {
        let mode = match mode {
            StoreMode::Cas(_) => StoreMode::Cas(unsigned(cas)?),
            other => other,
        };
        Some(Line::Storage(Storage {
            mode,
            key: args.key(key).ok()?,
            flags: u32::try_from(unsigned(flags)?).ok()?,
            exptime: exptime(exptime_word)?,
            value_len,
            noreply: words.noreply,
        }))
    };
    read().ok_or_else(|| BadLine {
        block_len: Some(value_len),
        ..BadLine::new(ProtocolError::BadFormat, words.noreply)
    })
}

/// `<key> [0] [noreply]`; the zero is what remains of a delay that memcached once had.
fn delete(args: &Args<'_>) -> Result<Command, BadLine> {
    let words = args.words(1, 3)?;
    let extra = &words.words[1..words.len];
    if !matches!(extra, [] | [b"0" | b"noreply"] | [b"0", b"noreply"]) {
        return Err(BadLine::new(ProtocolError::BadDelete, words.noreply));
    }
    let key = args.key(words.words[0]).map_err(|error| BadLine::new(error, words.noreply))?;
    Ok(Command::Delete { key, noreply: words.noreply })
}

/// `<key> <delta> [noreply]`
fn arithmetic(args: &Args<'_>, operation: Arithmetic) -> Result<Command, BadLine> {
    let Words { words, noreply, .. } = args.words(2, 3)?;
    let key = args.key(words[0]).map_err(|error| BadLine::new(error, noreply))?;
    let delta = unsigned(words[1]).ok_or_else(|| BadLine::new(ProtocolError::BadDelta, noreply))?;
    Ok(Command::Arithmetic { operation, key, delta, noreply })
}

/// `<key> <exptime> [noreply]`
fn touch(args: &Args<'_>) -> Result<Command, BadLine> {
    let Words { words, noreply, .. } = args.words(2, 3)?;
    let key = args.key(words[0]).map_err(|error| BadLine::new(error, noreply))?;
    let exptime =
        exptime(words[1]).ok_or_else(|| BadLine::new(ProtocolError::BadExptime, noreply))?;
    Ok(Command::Touch { key, exptime, noreply })
}

/// `[<delay>] [noreply]`
fn flush_all(args: &Args<'_>) -> Result<Command, BadLine> {
    let Words { words, len, noreply } = args.words(0, 2)?;
    let delay = match len - usize::from(noreply) {
        0 => Exptime::NEVER,
        _ => exptime(words[0]).ok_or_else(|| BadLine::new(ProtocolError::BadExptime, noreply))?,
    };
    Ok(Command::FlushAll { delay, noreply })
}

/// `<level> [noreply]`
fn verbosity(args: &Args<'_>) -> Result<Command, BadLine> {
    let Words { words, noreply, .. } = args.words(1, 2)?;
    // Without a level it is an error, but a silent one.
    let noreply = noreply || words[0] == b"noreply";
    match unsigned(words[0]) {
        Some(_) => Ok(Command::Verbosity { noreply }),
        None => Err(BadLine::new(ProtocolError::BadFormat, noreply)),
    }
}

/// Control characters pass, as in memcached: its documentation asks clients to leave them out, but
/// libmemcached's load generator does not.
fn check_key(word: &[u8]) -> Result<(), ProtocolError> {
    if word.len() > KEY_BYTES_MAX {
        return Err(ProtocolError::BadFormat);
    }
    Ok(())
}

/// A decimal number without a sign.
fn unsigned(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

fn exptime(word: &[u8]) -> Option<Exptime> {
    let number = match word.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(unsigned(digits)?)?,
        None => i64::try_from(unsigned(word)?).ok()?,
    };
    Some(Exptime::from_wire(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &'static str) -> Command {
        match parse(&Bytes::from_static(line.as_bytes())) {
            Ok(Line::Complete(command)) => command,
            other => panic!("{line:?} gives {other:?}"),
        }
    }

    fn refused(line: &'static str) -> (ProtocolError, bool, Option<usize>) {
        let bad = parse(&Bytes::from_static(line.as_bytes())).unwrap_err();
        (bad.error.error, bad.error.noreply, bad.block_len)
    }

    #[test]
    fn lookups_take_any_number_of_keys() {
        let Command::Get { keys, with_cas } = complete("  gets  a bb   ccc ") else { panic!() };
        assert_eq!(keys.iter().collect::<Vec<_>>(), [&b"a"[..], b"bb", b"ccc"]);
        assert!(with_cas);
        let Command::Gat { keys, exptime, .. } = complete("gat -1 a b") else { panic!() };
        assert_eq!(keys.iter().count(), 2);
        assert_eq!(exptime, Exptime::from_wire(-1));
        assert_eq!(refused("get"), (ProtocolError::UnknownCommand, false, None));
        assert_eq!(refused("gat 5"), (ProtocolError::UnknownCommand, false, None));
        assert_eq!(refused("gat x a"), (ProtocolError::BadExptime, false, None));
        let Command::Get { keys, .. } = complete("get \x10\x10a\tb") else { panic!() };
        assert_eq!(keys.iter().collect::<Vec<_>>(), [b"\x10\x10a\tb"]);
    }

    #[test]
    fn storage_lines_announce_their_block() {
        let line = Bytes::from_static(b"cas k 4294967295 -7 10 99 noreply");
        let Ok(Line::Storage(storage)) = parse(&line) else { panic!() };
        assert_eq!(storage.mode, StoreMode::Cas(99));
        assert_eq!((storage.flags, storage.exptime.to_wire()), (u32::MAX, -7));
        assert_eq!((storage.value_len, storage.noreply), (10, true));
        let bad = ProtocolError::BadFormat;
        assert_eq!(refused("set k 4294967296 0 10"), (bad, false, Some(10)));
        assert_eq!(refused("set k 0 soon 10 noreply"), (bad, true, Some(10)));
        assert_eq!(refused("cas k 0 0 10 x"), (bad, false, Some(10)));
        assert_eq!(refused("set k 0 0 -1"), (bad, false, None));
        assert_eq!(refused("set k 0 0 2147483646"), (bad, false, None));
        assert_eq!(refused("set k 0 0"), (ProtocolError::UnknownCommand, false, None));
    }

    #[test]
    fn a_key_may_be_called_noreply() {
        let Command::Delete { key, noreply } = complete("delete noreply") else { panic!() };
        assert_eq!((&key[..], noreply), (&b"noreply"[..], false));
        let Command::Delete { noreply, .. } = complete("delete k 0 noreply") else { panic!() };
        assert!(noreply);
        assert_eq!(refused("delete k 5").0, ProtocolError::BadDelete);
        assert!(refused("delete k 5 noreply").1);
    }

    #[test]
    fn flush_all_has_two_optional_words() {
        let flush = |secs, noreply| Command::FlushAll { delay: Exptime::from_wire(secs), noreply };
        assert_eq!(complete("flush_all"), flush(0, false));
        assert_eq!(complete("flush_all noreply"), flush(0, true));
        assert_eq!(complete("flush_all 10"), flush(10, false));
        assert_eq!(complete("flush_all 10 noreply"), flush(10, true));
        assert_eq!(refused("flush_all soon").0, ProtocolError::BadExptime);
    }

    #[test]
    fn verbosity_may_be_silent_even_without_a_level() {
        assert_eq!(complete("verbosity 1"), Command::Verbosity { noreply: false });
        assert_eq!(complete("verbosity 1 noreply"), Command::Verbosity { noreply: true });
        assert_eq!(refused("verbosity noreply"), (ProtocolError::BadFormat, true, None));
        assert_eq!(refused("verbosity"), (ProtocolError::UnknownCommand, false, None));
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(exptime(b"-9223372036854775808"), Some(Exptime::from_wire(i64::MIN)));
        assert_eq!(exptime(b"9223372036854775808"), None);
        for word in [&b""[..], b"-", b"--1"] {
            assert_eq!(exptime(word), None);
        }
    }

    #[test]
    fn keys_have_a_longest() {
        let line = |len| Bytes::from(format!("touch {} 5", "k".repeat(len)));
        assert!(parse(&line(KEY_BYTES_MAX)).is_ok());
        assert!(parse(&line(KEY_BYTES_MAX + 1)).is_err());
    }
}
