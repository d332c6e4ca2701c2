//! The parser against arbitrary splits of valid streams, and against arbitrary bytes.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_kv::protocol::{Arithmetic, Command, ParseError, Parser, execute};
use seawall_kv::store::{Config, Store, StoreMode};
use seawall_kv::{Exptime, UnixTime};

const VALUE_BYTES_MAX: usize = 200;

type Parsed = Result<Command, ParseError>;

/// One request as bytes, and what it must be parsed to; `None` for an error.
fn request() -> impl Strategy<Value = (Vec<u8>, Option<Command>)> {
    prop_oneof![
        4 => storage(),
        3 => lookup(),
        3 => small(),
        1 => malformed().prop_map(|bytes| (bytes, None)),
    ]
}

fn key() -> impl Strategy<Value = String> {
    "[!-~]{1,40}"
}

fn noreply(noreply: bool) -> &'static str {
    if noreply { " noreply" } else { "" }
}

fn storage() -> impl Strategy<Value = (Vec<u8>, Option<Command>)> {
    let mode = prop_oneof![
        Just(StoreMode::Set),
        Just(StoreMode::Add),
        Just(StoreMode::Replace),
        Just(StoreMode::Append),
        Just(StoreMode::Prepend),
        any::<u64>().prop_map(StoreMode::Cas),
    ];
    // Above VALUE_BYTES_MAX, values are announced as too large.
    let value = vec(prop_oneof![Just(b'\r'), Just(b'\n'), any::<u8>()], 0..VALUE_BYTES_MAX + 50);
    (mode, key(), value, any::<u32>(), any::<i64>(), any::<bool>()).prop_map(
        |(mode, key, value, flags, exptime, quiet)| {
            let (name, cas) = match mode {
                StoreMode::Set => ("set", String::new()),
                StoreMode::Add => ("add", String::new()),
                StoreMode::Replace => ("replace", String::new()),
                StoreMode::Append => ("append", String::new()),
                StoreMode::Prepend => ("prepend", String::new()),
                StoreMode::Cas(cas) => ("cas", format!(" {cas}")),
            };
            let len = value.len();
            let end = noreply(quiet);
            let mut bytes =
                format!("{name} {key} {flags} {exptime} {len}{cas}{end}\r\n").into_bytes();
            bytes.extend_from_slice(&value);
            bytes.extend_from_slice(b"\r\n");
            let (key, noreply) = (Bytes::from(key), quiet);
            let exptime = Exptime::from_wire(exptime);
            let command = if len > VALUE_BYTES_MAX {
                Command::StoreTooLarge { mode, key, noreply }
            } else {
                Command::Store { mode, key, value: value.into(), flags, exptime, noreply }
            };
            (bytes, Some(command))
        },
    )
}

/// Lookups, whose keys are compared by looking at them again below.
fn lookup() -> impl Strategy<Value = (Vec<u8>, Option<Command>)> {
    (vec(key(), 1..8), any::<bool>(), any::<Option<i64>>()).prop_map(|(keys, with_cas, exptime)| {
        let suffix = if with_cas { "s" } else { "" };
        let line = match exptime {
            None => format!("get{suffix} {}\r\n", keys.join(" ")),
            Some(exptime) => format!("gat{suffix} {exptime} {}\r\n", keys.join(" ")),
        };
        // `Keys` has no public constructor; a parser that sees the line whole makes them.
        let command = parse_whole(line.as_bytes()).remove(0).unwrap();
        let parsed = match &command {
            Command::Get { keys, .. } | Command::Gat { keys, .. } => keys,
            other => panic!("{other:?}"),
        };
        assert!(parsed.iter().eq(keys.iter().map(String::as_bytes)));
        (line.into_bytes(), Some(command))
    })
}

fn small() -> impl Strategy<Value = (Vec<u8>, Option<Command>)> {
    (0..9, key(), any::<u64>(), any::<i64>(), any::<bool>()).prop_map(
        |(which, key, delta, exptime, noreply)| {
            let end = self::noreply(noreply);
            let exp = Exptime::from_wire(exptime);
            let bytes = Bytes::from(key.clone());
            let (line, command) = match which {
                0 => (format!("delete {key}{end}"), Command::Delete { key: bytes, noreply }),
                1 | 2 => {
                    let (name, operation) = match which {
                        1 => ("incr", Arithmetic::Increment),
                        _ => ("decr", Arithmetic::Decrement),
                    };
                    let command = Command::Arithmetic { operation, key: bytes, delta, noreply };
                    (format!("{name} {key} {delta}{end}"), command)
                }
                3 => {
                    let command = Command::Touch { key: bytes, exptime: exp, noreply };
                    (format!("touch {key} {exptime}{end}"), command)
                }
                4 => {
                    let command = Command::FlushAll { delay: exp, noreply };
                    (format!("flush_all {exptime}{end}"), command)
                }
                5 => ("stats".into(), Command::Stats { topic: Bytes::new() }),
                6 => ("version".into(), Command::Version),
                7 => (format!("verbosity 1{end}"), Command::Verbosity { noreply }),
                _ => ("quit".into(), Command::Quit),
            };
            (format!("{line}\r\n").into_bytes(), Some(command))
        },
    )
}

/// Requests that are wrong in a way after which the stream can be followed.
fn malformed() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"get\r\n".to_vec()),
        Just(b"fetch me something\r\n".to_vec()),
        Just(b"incr k many\r\n".to_vec()),
        Just(b"set k nonsense 0 7\r\nget k\r\n\r\n".to_vec()),
        Just(b"set k 0 0 3\r\ntoo long\r\n".to_vec()),
        Just(b"set k 0 0 9\r\nx\r\nget k\r\n".to_vec()),
        Just(format!("set {} 0 0 3\r\nabc\r\n", "k".repeat(251)).into_bytes()),
        Just([&[b'x'; 70_000][..], b"\r\n"].concat()),
    ]
}

fn parse_whole(bytes: &[u8]) -> Vec<Parsed> {
    parse_in_parts(bytes, &[])
}

/// Feeds `bytes` in parts of the given lengths, over and over; then checks that nothing is left.
fn parse_in_parts(mut bytes: &[u8], lens: &[usize]) -> Vec<Parsed> {
    let mut parser = Parser::new(VALUE_BYTES_MAX);
    let mut buffer = BytesMut::new();
    let mut parsed = Vec::new();
    let mut lens = lens.iter().cycle();
    while !bytes.is_empty() {
        let len = lens.next().map_or(bytes.len(), |&len| len.clamp(1, bytes.len()));
        let (part, rest) = bytes.split_at(len);
        buffer.extend_from_slice(part);
        bytes = rest;
        while let Some(next) = parser.next(&mut buffer) {
            parsed.push(next);
        }
        assert!(parser.bytes_wanted(buffer.len()) > 0);
    }
    parsed
}

fn same(parsed: &Parsed, expected: &Option<Command>) -> bool {
    match (parsed, expected) {
        (Ok(parsed), Some(expected)) => parsed == expected,
        (Err(_), None) => true,
        _ => false,
    }
}

proptest! {
    #[test]
    fn splits_make_no_difference(
        requests in vec(request(), 1..12),
        lens in vec(1..60usize, 1..12),
    ) {
        let stream: Vec<u8> = requests.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        for parsed in [parse_whole(&stream), parse_in_parts(&stream, &lens)] {
            prop_assert_eq!(parsed.len(), requests.len(), "{:?}", parsed);
            for (parsed, (_, expected)) in parsed.iter().zip(&requests) {
                prop_assert!(same(parsed, expected), "{:?} instead of {:?}", parsed, expected);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(
        bytes in vec(any::<u8>(), 0..2000),
        lens in vec(1..40usize, 1..5),
    ) {
        prop_assert_eq!(parse_in_parts(&bytes, &lens), parse_whole(&bytes));
    }

    #[test]
    fn arbitrary_words_are_parsed_alike_and_answered(
        text in "((set|add|cas|get|gets|gat|incr|delete|touch|flush_all|stats|k|noreply|0|1|3|-5|\
                   |99999999999| |\r\n|\n|\r)( |\r\n|)){0,60}",
        lens in vec(1..20usize, 1..5),
    ) {
        let parsed = parse_whole(text.as_bytes());
        prop_assert_eq!(&parse_in_parts(text.as_bytes(), &lens), &parsed);
        let store = Store::with_seed(&Config { hash_power: 1, ..Config::default() }, 0).unwrap();
        let patient = Context::new(Claims::default(), Instant::ORIGIN);
        let mut out = BytesMut::new();
        for request in &parsed {
            let before = out.len();
            let noreply = match request {
                Ok(command) => {
                    let now = UnixTime::from_secs(1_700_000_000);
                    execute(&store, &patient, now, command, &mut out).unwrap();
                    command.noreply()
                }
                Err(error) => {
                    error.write(&mut out);
                    error.noreply
                }
            };
            prop_assert_eq!(out.len() == before, noreply, "a reply exactly when one is wanted");
            prop_assert!(out.is_empty() || out.ends_with(b"\r\n"));
        }
    }

    #[test]
    fn after_garbage_that_announces_no_block_the_next_line_is_understood(
        garbage in vec(any::<u8>(), 0..500),
    ) {
        // Only a storage line can make the parser take what follows for data.
        let names = [&b"set"[..], b"add", b"replace", b"append", b"prepend", b"cas"];
        let announces = garbage.split(|&byte| byte == b'\n').any(|line| {
            line.split(|&byte| byte == b' ').any(|word| names.contains(&word))
        });
        prop_assume!(!announces);
        let stream = [&garbage[..], b"\r\nversion\r\n"].concat();
        prop_assert_eq!(parse_whole(&stream).pop(), Some(Ok(Command::Version)));
    }
}
