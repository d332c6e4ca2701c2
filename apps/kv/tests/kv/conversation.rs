//! Whole conversations in the text protocol, as a client sees them.

use bytes::BytesMut;
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_kv::protocol::{Connection, Parser, REPLY_BYTES_MAX, execute};
use seawall_kv::store::{Config, Store};
use seawall_kv::{UnixTime, native};

/// A request that may wait for ever.
fn patient() -> Context {
    Context::new(Claims::default(), Instant::ORIGIN)
}

struct Client {
    store: Store,
    parser: Parser,
    now: u64,
}

impl Client {
    fn new() -> Self {
        Self::with(&Config::default())
    }

    fn with(config: &Config) -> Self {
        let store = Store::with_seed(config, 11).unwrap();
        let parser = Parser::new(store.item_bytes_max());
        Self { store, parser, now: 1_700_000_000 }
    }

    fn now(&self) -> UnixTime {
        UnixTime::from_secs(self.now)
    }

    /// Sends `request` and returns everything that comes back.
    fn send(&mut self, request: impl AsRef<[u8]>) -> String {
        let mut input = BytesMut::from(request.as_ref());
        let mut output = BytesMut::new();
        while let Some(parsed) = self.parser.next(&mut input) {
            match parsed {
                Ok(command) => {
                    let done = execute(&self.store, &patient(), self.now(), &command, &mut output);
                    if done == Ok(Connection::Close) {
                        output.extend_from_slice(b"<closed>");
                    }
                }
                Err(error) => error.write(&mut output),
            }
        }
        String::from_utf8(output.to_vec()).unwrap()
    }

    #[track_caller]
    fn talk(&mut self, lines: &[(&str, &str)]) {
        for (request, reply) in lines {
            assert_eq!(self.send(request), *reply, "to {request:?}");
        }
    }
}

#[test]
fn storing_and_looking_up() {
    Client::new().talk(&[
        ("get a\r\n", "END\r\n"),
        ("set a 5 0 3\r\none\r\n", "STORED\r\n"),
        ("add a 5 0 3\r\ntwo\r\n", "NOT_STORED\r\n"),
        ("add b 6 0 0\r\n\r\n", "STORED\r\n"),
        ("replace c 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("get a b c\r\n", "VALUE a 5 3\r\none\r\nVALUE b 6 0\r\n\r\nEND\r\n"),
        ("append a 0 0 2\r\n!!\r\n", "STORED\r\n"),
        ("prepend a 0 0 2\r\n??\r\n", "STORED\r\n"),
        ("append c 0 0 2\r\n!!\r\n", "NOT_STORED\r\n"),
        ("get a\r\n", "VALUE a 5 7\r\n??one!!\r\nEND\r\n"),
        ("delete a\r\n", "DELETED\r\n"),
        ("delete a\r\n", "NOT_FOUND\r\n"),
        ("get a\r\n", "END\r\n"),
    ]);
}

#[test]
fn compare_and_swap() {
    Client::new().talk(&[
        ("cas a 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("set a 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("gets a\r\n", "VALUE a 0 1 1\r\n1\r\nEND\r\n"),
        ("cas a 0 0 1 1\r\n2\r\n", "STORED\r\n"),
        ("cas a 0 0 1 1\r\n3\r\n", "EXISTS\r\n"),
        ("gats 0 a\r\n", "VALUE a 0 1 2\r\n2\r\nEND\r\n"),
    ]);
}

#[test]
fn numbers() {
    Client::new().talk(&[
        ("incr n 1\r\n", "NOT_FOUND\r\n"),
        ("set n 0 0 2\r\n99\r\n", "STORED\r\n"),
        ("incr n 1\r\n", "100\r\n"),
        ("decr n 1000\r\n", "0\r\n"),
        ("incr n 18446744073709551615\r\n", "18446744073709551615\r\n"),
        ("incr n -1\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ("set n 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("incr n 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ]);
}

#[test]
fn expiry_and_flushing() {
    let mut client = Client::new();
    client.talk(&[
        ("set a 0 10 1\r\n1\r\n", "STORED\r\n"),
        ("set b 0 10 1\r\n2\r\n", "STORED\r\n"),
        ("set c 0 -1 1\r\n3\r\n", "STORED\r\n"),
        ("touch a 20\r\n", "TOUCHED\r\n"),
        ("touch z 20\r\n", "NOT_FOUND\r\n"),
        ("get a b c\r\n", "VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n"),
    ]);
    client.now += 10;
    client.talk(&[
        ("get a b\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"),
        ("gat 100 a b\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n"),
        ("flush_all 5\r\n", "OK\r\n"),
    ]);
    client.now += 5;
    client.talk(&[
        ("get a\r\n", "END\r\n"),
        ("set a 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("flush_all\r\nget a\r\n", "OK\r\nEND\r\n"),
    ]);
}

#[test]
fn noreply_is_silent_even_about_errors() {
    let mut client = Client::new();
    client.talk(&[
        ("set a 0 0 1 noreply\r\n1\r\n", ""),
        ("incr a 5 noreply\r\n", ""),
        ("touch a 50 noreply\r\n", ""),
        ("get a\r\n", "VALUE a 0 1\r\n6\r\nEND\r\n"),
        ("set a 0 0 1 noreply\r\nlong\r\n", ""),
        ("set a 0 0 9999999 noreply\r\n", ""),
    ]);
    client.send(vec![b'x'; 9_999_999]);
    client.talk(&[
        ("\r\n", ""),
        ("get a\r\n", "END\r\n"),
        ("delete a noreply\r\nflush_all noreply\r\nverbosity 1 noreply\r\n", ""),
    ]);
}

#[test]
fn errors_and_the_lines_after_them() {
    let long_key = "k".repeat(251);
    let long_line = format!("get {}\r\nversion\r\n", "k ".repeat(600_000));
    let version = format!("VERSION 1.6.0-seawall-{}\r\n", env!("CARGO_PKG_VERSION"));
    let then_version = |error: &str| format!("{error}\r\n{version}");
    let mut client = Client::new();
    for (request, error) in [
        ("\r\nversion\r\n", "ERROR"),
        ("hello\r\nversion\r\n", "ERROR"),
        ("GET a\r\nversion\r\n", "ERROR"),
        ("get\r\nversion\r\n", "ERROR"),
        ("stats nonsense\r\nversion\r\n", "ERROR"),
        ("set a 0 0 x\r\nversion\r\n", "CLIENT_ERROR bad command line format"),
        ("set a x 0 2\r\nhi\r\nversion\r\n", "CLIENT_ERROR bad command line format"),
        ("set a 0 0 2\r\nlonger\r\nversion\r\n", "CLIENT_ERROR bad data chunk"),
        (&format!("get {long_key}\r\nversion\r\n"), "CLIENT_ERROR bad command line format"),
        (
            &format!("add {long_key} 0 0 2\r\nhi\r\nversion\r\n"),
            "CLIENT_ERROR bad command line format",
        ),
        (
            "delete a 10\r\nversion\r\n",
            "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
        ),
        (&long_line, "CLIENT_ERROR line too long"),
    ] {
        assert_eq!(client.send(request), then_version(error), "to {request:?}");
    }
}

#[test]
fn a_large_value_is_swallowed_and_the_old_one_forgotten() {
    let mut client = Client::new();
    let value = "x".repeat((1 << 20) + 1);
    let len = value.len();
    client.talk(&[("set a 0 0 1\r\n1\r\n", "STORED\r\n")]);
    let request = format!("replace a 0 0 {len}\r\n{value}\r\nget a\r\n");
    let error = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(client.send(request), format!("{error}VALUE a 0 1\r\n1\r\nEND\r\n"));
    let request = format!("set a 0 0 {len}\r\n{value}\r\nget a\r\n");
    assert_eq!(client.send(request), format!("{error}END\r\n"));
    // The value alone would fit, but not together with its key.
    let value = &value[1..];
    let request = format!("set a 0 0 {}\r\n{value}\r\nget a\r\n", value.len());
    assert_eq!(client.send(request), format!("{error}END\r\n"));
}

#[test]
fn a_full_store_says_so() {
    let mut client = Client::with(&Config { memory_limit_mib: 1, ..Config::default() });
    client.talk(&[
        ("set a 0 0 1\r\n1\r\n", "STORED\r\n"),
        (
            &format!("set b 0 0 5000\r\n{}\r\n", "x".repeat(5000)),
            "SERVER_ERROR out of memory storing object\r\n",
        ),
    ]);
}

#[test]
fn a_reply_is_bounded() {
    let mut client = Client::new();
    let value = "x".repeat(1_000_000);
    client.send(format!("set a 0 0 1000000\r\n{value}\r\n"));
    let lookups = REPLY_BYTES_MAX / 1_000_000;
    let reply = client.send(format!("get {}\r\n", "a ".repeat(lookups)));
    assert!(reply.len() > lookups * 1_000_000 && reply.ends_with("END\r\n"));
    let reply = client.send(format!("get {}\r\nget b\r\n", "a ".repeat(lookups + 1)));
    assert_eq!(reply, "SERVER_ERROR out of memory writing get response\r\nEND\r\n");
}

#[test]
fn statistics() {
    let mut client = Client::new();
    client.send("set a 0 0 3\r\none\r\nget a b c\r\n");
    let stats = client.send("stats\r\n");
    for line in [
        "STAT curr_items 1\r\n",
        "STAT bytes 4\r\n",
        "STAT cmd_get 3\r\n",
        "STAT cmd_set 1\r\n",
        "STAT get_hits 1\r\n",
        "STAT get_misses 2\r\n",
        "STAT limit_maxbytes 67108864\r\n",
        "STAT hash_power_level 16\r\n",
    ] {
        assert!(stats.contains(line), "{line:?} is not in {stats}");
    }
    assert!(stats.ends_with("END\r\n"));
    let slabs = client.send("stats slabs\r\n");
    for line in ["STAT 1:chunk_size 96\r\n", "STAT 1:used_chunks 1\r\n", "STAT active_slabs 1\r\n"]
    {
        assert!(slabs.contains(line), "{line:?} is not in {slabs}");
    }
}

#[test]
fn quitting() {
    Client::new().talk(&[("quit\r\n", "<closed>")]);
}

#[test]
fn both_protocols_see_the_same_items() {
    let mut client = Client::new();
    client.send("set a 7 0 3\r\none\r\n");
    let now = client.now();
    let get = native::Request::Get { key: "a".into() };
    let hit = native::Reply::Hit { value: "one".into(), flags: 7 };
    assert_eq!(native::execute(&client.store, &patient(), now, &get), Ok(hit));
    let delete = native::Request::Delete { key: "a".into() };
    assert_eq!(
        native::execute(&client.store, &patient(), now, &delete),
        Ok(native::Reply::Deleted)
    );
    assert_eq!(
        native::execute(&client.store, &patient(), now, &delete),
        Ok(native::Reply::NotFound)
    );
    assert_eq!(client.send("get a\r\n"), "END\r\n");
}
