//! Servers: ready, used, stopped.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use nix::sys::signal::Signal;
use seawall_abi::page::Reader;

use crate::support::{Served, fail, succeed};

#[test]
fn signals_end_it_gracefully() {
    for service in ["synthetic", "kv"] {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let status = Served::start(&[service]).signalled(signal);
            assert_eq!(status.code(), Some(0), "{service} {signal}");
        }
    }
}

#[test]
fn the_end_of_standard_input_ends_it_where_that_is_wanted() {
    let status = Served::start(&["synthetic"]).left_alone();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn without_that_only_a_signal_does() {
    let arguments = ["serve", "synthetic", "--listen", "127.0.0.1:0", "--slo", "5s"];
    let server = Served::start_exactly(&arguments);
    let address = server.address();
    succeed(&["load", &address, "--rate", "100", "--warm-up", "0s", "--time", "50ms"]);
    assert_eq!(server.signalled(Signal::SIGINT).code(), Some(0));
}

#[test]
fn a_port_in_use_is_named() {
    let server = Served::start(&["synthetic"]);
    let address = server.address();
    let expected = [&format!("cannot listen at {address}"), "choose another address"];
    fail(&["serve", "synthetic", "--listen", &address], &expected);
    fail(&["serve", "kv", "--listen", &address], &expected);
    let metrics = ["serve", "synthetic", "--listen", "127.0.0.1:0", "--metrics", &address];
    fail(&metrics, &[&format!("cannot serve metrics at {address}")]);
}

#[test]
fn pages_are_published_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().to_str().unwrap();
    let server = Served::start(&["synthetic", "--pages", pages, "--slo", "5s"]);
    let address = server.address();
    let page = std::fs::read_dir(folder.path()).unwrap().next().expect("a page").unwrap().path();
    let reader = Reader::open(page).unwrap();
    assert_eq!(reader.description().name, "synthetic");
    assert!(address.ends_with(&format!(":{}", reader.description().port)));
    succeed(&["load", &address, "--rate", "100", "--warm-up", "0s", "--time", "50ms"]);
    assert!(reader.counters().unwrap().requests > 0);
    assert_eq!(server.signalled(Signal::SIGTERM).code(), Some(0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn memcached_clients_are_served() {
    let server = Served::start(&["kv", "--memcached", "127.0.0.1:0"]);
    let client = TcpStream::connect(server.memcached().unwrap()).unwrap();
    (&client).write_all(b"set greeting 0 0 5\r\nhello\r\nget greeting\r\n").unwrap();
    let lines = BufReader::new(&client).lines().map(Result::unwrap);
    let lines: Vec<String> = lines.take(4).collect();
    assert_eq!(lines, ["STORED", "VALUE greeting 0 5", "hello", "END"]);
    assert_eq!(Served::start(&["kv"]).memcached(), None);
}
