//! Frames that break the protocol, and bytes that are none.

use seawall_control::Rng;
use seawall_control::wire::{HEADER_LEN, Hello, Request, RequestOp, Response, ResponseOp};
use seawall_rpc::Server;
use tokio::io::AsyncWriteExt;

use crate::support::raw::{Raw, call, frame, hello_frame};
use crate::support::{Bystander, ECHO, GROW, SLEEP, balanced, config, router, until};

/// Bytes that a client sends, and what the server makes of them.
struct Offence {
    what: &'static str,
    bytes: Vec<u8>,
    /// The reason for which the connection is closed.
    kind: &'static str,
    /// The kind of protocol error, if it is one.
    error: Option<&'static str>,
    /// A part of what the client is told.
    told: &'static str,
}

fn protocol(
    what: &'static str,
    bytes: Vec<u8>,
    error: &'static str,
    told: &'static str,
) -> Offence {
    Offence { what, bytes, kind: "protocol", error: Some(error), told }
}

fn unexpected(what: &'static str, bytes: Vec<u8>, told: &'static str) -> Offence {
    Offence { what, bytes, kind: "unexpected_frame", error: None, told }
}

/// A call with one byte of its header changed.
fn call_with(at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = call(1, ECHO, b"x");
    bytes[at] = byte;
    bytes
}

fn call_with_extension(block_len: u32, rest: &[u8]) -> Vec<u8> {
    let mut request = Request::new(RequestOp::Call);
    request.extension = true;
    frame(request, &[&block_len.to_le_bytes(), rest].concat())
}

/// What a client can do wrong before it is known.
fn first_frames() -> Vec<Offence> {
    let mut oversize = Request::new(RequestOp::Hello);
    oversize.body_len = u32::MAX;
    let long_token = Hello { token: Some(vec![1; Hello::MAX_LEN]), ..Hello::default() };
    let mut long_token = hello_frame(&long_token);
    // One byte more than the encoder would let through.
    long_token.push(1);
    let len = (Hello::MAX_LEN as u16 + 1).to_le_bytes();
    long_token[HEADER_LEN + 4 + 2..][..2].copy_from_slice(&len);
    let body_len = (long_token.len() - HEADER_LEN) as u32;
    long_token[8..12].copy_from_slice(&body_len.to_le_bytes());
    vec![
        protocol("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec(), "bad_magic", "not a Seawall frame"),
        protocol("one wrong byte", b"X".to_vec(), "bad_magic", "not a Seawall frame"),
        protocol(
            "a frame of the other direction",
            Response::new(ResponseOp::Settings).encode().to_vec(),
            "bad_magic",
            "not a Seawall frame",
        ),
        protocol("an oversize hello", oversize.encode().to_vec(), "too_large", "4294967295 bytes"),
        protocol(
            "a hello whose entry is cut off",
            frame(Request::new(RequestOp::Hello), &[1, 0, 9, 0, b'x']),
            "bad_block",
            "does not fit",
        ),
        protocol("a hello with too long a token", long_token, "bad_block", "does not fit"),
        unexpected("a call before the hello", call(1, ECHO, b""), "first frame was not a hello"),
        unexpected(
            "a goodbye before the hello",
            frame(Request::new(RequestOp::Goodbye), b""),
            "first frame was not a hello",
        ),
    ]
}

/// What a client can do wrong when it is known.
fn later_frames() -> Vec<Offence> {
    let mut oversize = Request::new(RequestOp::Call);
    oversize.body_len = (1 << 20) + 1;
    vec![
        protocol("bad magic", call_with(0, b'T'), "bad_magic", "not a Seawall frame"),
        protocol("bad version", call_with(4, 9), "bad_version", "version 9 is not spoken here"),
        protocol("bad operation", call_with(5, 5), "bad_op", "operation 5 does not exist"),
        protocol("the reserved flag more", call_with(6, 0x11), "reserved_flag", "0x0011"),
        protocol("a high reserved flag", call_with(7, 0x80), "reserved_flag", "0x8001"),
        protocol("oversize", oversize.encode().to_vec(), "too_large", "allowed is up to 1048576"),
        protocol(
            "an extension block longer than the body",
            call_with_extension(6, b"short"),
            "bad_block",
            "does not fit",
        ),
        protocol(
            "an extension block of four gigabytes",
            call_with_extension(u32::MAX, b""),
            "bad_block",
            "does not fit",
        ),
        protocol(
            "an extension flag without a block",
            frame(Request { extension: true, ..Request::new(RequestOp::Call) }, b"abc"),
            "bad_block",
            "does not fit",
        ),
        unexpected("a second hello", hello_frame(&Hello::default()), "a second hello"),
        unexpected(
            "a call with an id in use",
            [call(9, SLEEP, b""), call(9, ECHO, b"")].concat(),
            "id is already in use",
        ),
    ]
}

/// Sends an offence on a connection of its own, and checks reason, counters and the end.
async fn commit(server: &Server, mut client: Raw, offence: &Offence) {
    let what = offence.what;
    let count = |stats: &seawall_rpc::Stats| {
        let errors = offence.error.and_then(|error| stats.protocol_errors.get(error));
        (stats.closed.get(offence.kind).copied().unwrap_or(0), errors.copied().unwrap_or(0))
    };
    let (closed, errors) = count(&server.stats());
    client.send(&offence.bytes).await;
    let told = client.farewell().await;
    assert!(told.contains(offence.told), "{what}: {told}");
    let error = u64::from(offence.error.is_some());
    assert_eq!(count(&server.stats()), (closed + 1, errors + error), "{what}");
}

#[tokio::test]
async fn bad_frames_close_their_connection_and_nothing_else() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    for offence in first_frames() {
        commit(&server, Raw::connect(server.address()).await, &offence).await;
    }
    for offence in later_frames() {
        commit(&server, Raw::open(server.address()).await, &offence).await;
        bystander.goes_on().await;
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    let offences = (first_frames().len() + later_frames().len()) as u64;
    assert_eq!(stats.accepted, offences + 1);
    assert_eq!(stats.closed["protocol"] + stats.closed["unexpected_frame"], offences);
}

#[tokio::test]
async fn what_was_answered_before_the_offence_arrives_whole() {
    // The reason must not land in the middle of a reply that is half written.
    let mut config = config("none");
    config.limits.unread_bytes = 64 << 20;
    let server = Server::start(config, router()).unwrap();
    let len = 5 << 20; // more than the kernel takes, less than stops the server from reading
    for served in 1..=10 {
        let mut client = Raw::connect_narrow(server.address()).await.greet(&Hello::default()).await;
        client.send(&call(1, GROW, &u32::to_le_bytes(len))).await;
        until(|| server.stats().completions == served).await;
        client.send(b"garbage").await;
        client.widen();
        let answers = client.rest().await;
        if let [reply, goaway] = &answers[..] {
            assert_eq!(reply.body, vec![7; len as usize]);
            assert!(goaway.text().contains("not a Seawall frame"));
            balanced(&server).await;
            return;
        }
        // A client that is slow to read misses its end, but gets nothing wrong.
        assert!(answers.len() <= 1, "{} frames", answers.len());
    }
    panic!("the end never arrived");
}

#[tokio::test]
async fn truncated_frames_end_with_their_connection() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let whole = call(1, ECHO, &[7; 100]);
    let cuts = [1, 4, 63, 64, 65, 163];
    for (done, cut) in cuts.into_iter().enumerate() {
        let mut client = Raw::open(server.address()).await;
        client.send(&whole[..cut]).await;
        client.tcp.shutdown().await.unwrap();
        assert_eq!(client.rest().await, [], "cut after {cut} bytes");
        until(|| crate::support::closed(&server, "gone") == done as u64 + 1).await;
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!(stats.requests, stats.completions, "no truncated call was served");
}

#[tokio::test]
async fn garbage_ends_its_connection() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let seeds = 40;
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let garbage: Vec<u8> = (0..1 + rng.below(8_000)).map(|_| rng.next_u64() as u8).collect();
        let mut client = Raw::connect(server.address()).await;
        if seed % 2 == 1 {
            client = client.greet(&Hello::default()).await;
        }
        client.send(&garbage).await;
        let told = client.farewell().await;
        assert!(told.contains("not a Seawall frame"), "seed {seed}: {told}");
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!(stats.protocol_errors["bad_magic"], seeds);
    assert_eq!(stats.closed["protocol"], seeds);
}
