//! Every example of docs/http.md is read, and every key is explained there.

use std::collections::BTreeSet;

use seawall_control::fields::{self, Request, Response, timeout};

const DOCUMENT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md"));

/// The messages of the document: their first lines, and the headers below.
fn messages() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let mut blocks = DOCUMENT.split("\n```http\n").skip(1);
    let mut messages = Vec::new();
    for block in &mut blocks {
        let block = block.split("\n```").next().expect("a block has an end");
        let (first, headers) = block.split_once('\n').expect("a message has headers");
        let headers = headers.lines().take_while(|line| !line.is_empty());
        let split = |line: &'static str| line.split_once(": ").expect("a header has a value");
        messages.push((first, headers.map(split).collect()));
    }
    messages
}

#[test]
fn examples_are_understood_and_written_alike() {
    let messages = messages();
    assert!(messages.len() >= 6, "the document has examples");
    for (first, headers) in messages {
        for (_, value) in headers.iter().filter(|(name, _)| *name == fields::NAME) {
            let line = [value.as_bytes()];
            let (written, ignored, malformed) = if first.starts_with("HTTP/") {
                let read = Response::read(line);
                (read.fields.to_string(), read.ignored, read.malformed)
            } else {
                let read = Request::read(line);
                (read.fields.to_string(), read.ignored, read.malformed)
            };
            assert_eq!((ignored, malformed), (0, false), "{first}: {value}");
            assert_eq!(written, *value, "{first}");
        }
        for (_, value) in headers.iter().filter(|(name, _)| *name == timeout::NAME) {
            assert!(timeout::parse(value.as_bytes()).is_some(), "{first}: {value}");
        }
    }
}

/// The keys in the table below a heading: what stands in backquotes at the begin of its rows.
fn keys_below(heading: &str) -> BTreeSet<&'static str> {
    let (_, below) = DOCUMENT.split_once(heading).expect("the document has the heading");
    let table = below.split("\n#").next().unwrap_or(below);
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

#[test]
fn the_tables_have_all_keys_and_no_others() {
    assert_eq!(keys_below("### In requests"), Request::KEYS.into());
    assert_eq!(keys_below("### In responses"), Response::KEYS.into());
}
