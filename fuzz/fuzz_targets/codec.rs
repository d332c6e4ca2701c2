//! Arbitrary bytes as frames of both directions, and as the blocks in their bodies.
//!
//! What decodes is encoded again, and must give the same bytes wherever bytes have a meaning; every
//! beginning of it must be incomplete; and no part of it may lie outside.

#![no_main]

#[cfg(feature = "planted-bug")]
#[path = "../planted/codec.rs"]
mod planted;

use libfuzzer_sys::fuzz_target;
use seawall_control::controller::Feedback;
use seawall_control::wire::{
    DecodeError, Entries, HEADER_LEN, Hello, Layout, Request, RequestOp, Response, ResponseOp,
    Settings, push_entry,
};

/// Above what the fuzzer makes of itself, so that bodies come near it only by a wrong length.
const BODY_MAX: u32 = 1 << 16;

fuzz_target!(|data: &[u8]| {
    requests(data);
    responses(data);
    entries(data);
    hello(data);
    settings(data);
});

/// Reads a stream of requests until something is wrong with it.
fn requests(mut input: &[u8]) {
    loop {
        let request = match Request::decode(input, BODY_MAX) {
            Ok(request) => request,
            Err(error) => return check_error(input, b"SWRQ", error),
        };
        check_request(&request, input);
        let layout = match layout(&request, input) {
            Ok(layout) => layout,
            Err(DecodeError::Incomplete { missing }) => {
                return assert_eq!(missing, request.frame_len() - input.len());
            }
            Err(error) => return assert_eq!(error, DecodeError::BadBlock),
        };
        let (frame, rest) = input.split_at(request.frame_len());
        check_layout(&request, &layout, frame);
        match request.op {
            RequestOp::Hello => hello(&frame[HEADER_LEN..]),
            _ => entries(&frame[layout.extension]),
        }
        input = rest;
    }
}

/// Reads a stream of responses until something is wrong with it.
fn responses(mut input: &[u8]) {
    loop {
        let response = match Response::decode(input, BODY_MAX) {
            Ok(response) => response,
            Err(error) => return check_error(input, b"SWRS", error),
        };
        check_response(&response, input);
        let Some((frame, rest)) = input.split_at_checked(response.frame_len()) else { return };
        if response.op == ResponseOp::Settings {
            settings(&frame[HEADER_LEN..]);
        }
        input = rest;
    }
}

#[cfg(not(feature = "planted-bug"))]
fn layout(request: &Request, frame: &[u8]) -> Result<Layout, DecodeError> {
    request.layout(frame)
}

#[cfg(feature = "planted-bug")]
fn layout(request: &Request, frame: &[u8]) -> Result<Layout, DecodeError> {
    planted::layout(request, frame)
}

fn check_request(request: &Request, input: &[u8]) {
    // Absent fields come back as zero.
    let mut expected = header(input);
    if request.claims.budget.is_none() {
        expected[28..32].fill(0);
    }
    if request.claims.deadline.is_none() {
        expected[32..36].fill(0);
    }
    assert_eq!(request.encode(), expected);
    assert_eq!(Request::decode(&expected, request.body_len), Ok(*request));
    check_prefixes(input, |bytes| Request::decode(bytes, BODY_MAX).err());
}

fn check_response(response: &Response, input: &[u8]) {
    let mut expected = header(input);
    if !matches!(response.feedback, Feedback::Level(_)) {
        expected[14..16].fill(0);
    }
    if !matches!(response.feedback, Feedback::Window { .. }) {
        expected[24..32].fill(0);
    }
    expected[56..64].fill(0);
    assert_eq!(response.encode(), expected);
    assert_eq!(Response::decode(&expected, response.body_len), Ok(*response));
    check_prefixes(input, |bytes| Response::decode(bytes, BODY_MAX).err());
}

fn check_layout(request: &Request, layout: &Layout, frame: &[u8]) {
    assert!(HEADER_LEN <= layout.extension.start && layout.extension.start <= layout.extension.end);
    assert_eq!(layout.extension.end, layout.payload.start);
    assert!(layout.payload.start <= layout.payload.end);
    assert_eq!(layout.payload.end, frame.len());
    let prefix = if request.extension { 4 } else { 0 };
    assert_eq!(layout.extension.start, HEADER_LEN + prefix);
    for len in HEADER_LEN..frame.len() {
        let missing = frame.len() - len;
        assert_eq!(request.layout(&frame[..len]), Err(DecodeError::Incomplete { missing }));
    }
}

/// Every beginning of a header that decodes lacks exactly what it lacks.
fn check_prefixes(input: &[u8], decode: impl Fn(&[u8]) -> Option<DecodeError>) {
    for len in 0..HEADER_LEN {
        let missing = HEADER_LEN - len;
        assert_eq!(decode(&input[..len]), Some(DecodeError::Incomplete { missing }));
    }
}

/// A header that does not decode has what its error says.
fn check_error(input: &[u8], magic: &[u8; 4], error: DecodeError) {
    assert!(!error.kind().is_empty() && !error.to_string().is_empty());
    assert_eq!(error.is_incomplete(), matches!(error, DecodeError::Incomplete { .. }));
    match error {
        DecodeError::Incomplete { missing } => assert_eq!(input.len() + missing, HEADER_LEN),
        DecodeError::BadMagic { found } => {
            let seen = input.len().min(4);
            assert!(found[..seen] == input[..seen] && found[..seen] != magic[..seen]);
        }
        DecodeError::BadVersion { version } => assert!(version == input[4] && version != 1),
        DecodeError::BadOp { op } => assert!(op == input[5] && op > 3),
        DecodeError::BadStatus { status } => assert!(status == input[6] && status > 3),
        DecodeError::ReservedFlag { flags } => assert!(flags > 2),
        DecodeError::TooLarge { len, max } => {
            assert_eq!((&len.to_le_bytes()[..], max), (&input[8..12], BODY_MAX));
            assert!(len > max);
        }
        error => panic!("a header cannot have the error {error}"),
    }
}

fn header(input: &[u8]) -> [u8; HEADER_LEN] {
    *input.first_chunk().expect("a header that decodes is complete")
}

/// Entries give back exactly the bytes that they were read from.
fn entries(block: &[u8]) {
    let mut again = Vec::new();
    let mut whole = true;
    for entry in Entries::new(block) {
        assert!(whole, "an error is the last entry");
        match entry {
            Ok((tag, value)) => push_entry(&mut again, tag, value),
            Err(error) => {
                assert_eq!(error, DecodeError::BadBlock);
                whole = false;
            }
        }
    }
    assert!(block.starts_with(&again) && whole == (again.len() == block.len()));

    let mut good = Entries::new(block).map_while(Result::ok);
    let first = good.find(|(tag, _)| *tag == 1).map(|(_, value)| value);
    let nothing = if whole { Ok(None) } else { Err(DecodeError::BadBlock) };
    assert_eq!(Entries::new(block).find(1), first.map_or(nothing, |first| Ok(Some(first))));
}

fn hello(body: &[u8]) {
    if let Ok(hello) = Hello::decode(body) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
}

fn settings(body: &[u8]) {
    if let Ok(settings) = Settings::decode(body) {
        assert_eq!(Settings::decode(&settings.encode()), Ok(settings));
    }
}
