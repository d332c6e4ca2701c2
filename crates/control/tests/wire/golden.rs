//! Golden frames: their bytes are the protocol's, and WIRE.md shows all of them.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use seawall_control::controller::Feedback;
use seawall_control::request::{Claims, Priority, Stage, Tenant};
use seawall_control::wire::{
    DecodeError, Entries, HEADER_LEN, Hello, Request, RequestOp, Response, ResponseOp, Settings,
    Status, push_entry,
};

use super::{BODY_MAX, call, us};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../WIRE.md");

/// The text of a golden frame.
fn golden(name: &str) -> String {
    fs::read_to_string(format!("{GOLDEN}/{name}.hex")).expect("golden frames are readable")
}

/// The bytes of a golden frame: pairs of digits, up to a `#` on each line.
fn golden_bytes(name: &str) -> Vec<u8> {
    let text = golden(name);
    let code = text.lines().filter_map(|line| line.split('#').next());
    let pairs = code.flat_map(str::split_whitespace);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two hexadecimal digits")).collect()
}

/// When the client of the golden frames began to send: nanoseconds of its realtime clock.
const SENT_AT: u64 = 1_700_000_000_000_000_000;

fn golden_hello() -> Hello {
    Hello { name: "shop".into(), token: Some(b"open sesame".to_vec()), spills: false }
}

fn golden_spilling_hello() -> Hello {
    Hello { name: "shop-1".into(), token: None, spills: true }
}

fn golden_settings() -> Settings {
    Settings {
        algorithm: "breakwater".into(),
        body_max: 1 << 20,
        outstanding_max: 1024,
        slo: us(2000),
        stages: vec![(Stage(16), "orders lock".into()), (Stage(17), "disk".into())],
    }
}

/// A call whose fields all have values of their own, and its body.
fn full_call() -> (Request, Vec<u8>) {
    let claims = Claims {
        id: 0x0506_0708_0910_1112,
        method: 0x0102,
        priority: Priority(3),
        tenant: Tenant(0x4546_4748),
        attempt: 4,
        droppable: true,
        deadline: Some(us(0x2122_2324)),
        budget: Some(us(0x1718_1920)),
        upscale_hops: 0x2526,
        path: 0x2728,
        start_time_ns: 0x3738_3940_4142_4344,
        upstream_exec: Duration::ZERO, // no part of the header
        sent_at_ns: 0x2930_3132_3334_3536,
    };
    let (demand, window_ack) = (0x1314_1516, 0x4950_5152);
    let request = Request { demand, window_ack, extension: true, ..call(claims) };
    let mut entries = Vec::new();
    push_entry(&mut entries, 7, &[0xa0, 0xa1, 0xa2, 0xa3, 0xa4]);
    push_entry(&mut entries, 8, b"");
    (request, [&13u32.to_le_bytes()[..], &entries, b"payload"].concat())
}

/// A call of a service behind another one. What its extension says is no part of the header.
fn upstream_call() -> (Request, Vec<u8>) {
    let claims = Claims {
        id: 8,
        method: 7,
        upscale_hops: 2,
        path: 1,
        start_time_ns: SENT_AT - 3_000_000,
        sent_at_ns: SENT_AT,
        ..Claims::default()
    };
    let claimed = call(Claims { upstream_exec: us(1_234), ..claims });
    let block = claimed.extension_block().expect("it says what was executed");
    (Request { extension: true, ..call(claims) }, [&block[..], b"next"].concat())
}

fn golden_requests() -> Vec<(&'static str, Request, Vec<u8>)> {
    let undroppable = Claims {
        id: 2,
        method: 7,
        priority: Priority(0),
        tenant: Tenant(9),
        droppable: false,
        deadline: Some(us(1500)),
        start_time_ns: SENT_AT - 250_000,
        sent_at_ns: SENT_AT,
        ..Claims::default()
    };
    let undroppable = Request { demand: 5, window_ack: 3, ..call(undroppable) };
    let minimal = call(Claims { id: 1, ..Claims::default() });
    let demand = Request { demand: 40, window_ack: 6, ..Request::new(RequestOp::Demand) };
    let cancel = Request { op: RequestOp::Cancel, ..call(Claims { id: 2, ..Claims::default() }) };
    let (full, full_body) = full_call();
    let (upstream, upstream_body) = upstream_call();
    let mut frames = vec![
        ("hello", Request::new(RequestOp::Hello), golden_hello().encode()),
        ("hello-spills", Request::new(RequestOp::Hello), golden_spilling_hello().encode()),
        ("call-minimal", minimal, Vec::new()),
        ("call-full", full, full_body),
        ("call-undroppable", undroppable, b"save".to_vec()),
        ("call-upstream", upstream, upstream_body),
        ("demand", demand, Vec::new()),
        ("cancel", cancel, Vec::new()),
        ("goodbye", Request::new(RequestOp::Goodbye), Vec::new()),
    ];
    for (_, request, body) in &mut frames {
        request.body_len = body.len() as u32;
    }
    frames
}

fn golden_replies() -> Vec<(&'static str, Response, Vec<u8>)> {
    let window = |size, seq| Feedback::Window { size, seq };
    let reply = |id, status, stage, feedback, sent_at_ns, queue, service| Response {
        id,
        status,
        stage,
        feedback,
        sent_at_ns,
        queue_delay: us(queue),
        service: us(service),
        ..Response::new(ResponseOp::Reply)
    };
    let rejected = Response {
        predicted_delay: us(950),
        retry_after: us(400),
        ..reply(3, Status::Rejected, Stage::RUN_QUEUE, window(0, 6), SENT_AT + 1, 900, 0)
    };
    let ok = reply(1, Status::Ok, Stage::NONE, window(12, 5), SENT_AT, 85, 10);
    let cancelled = reply(2, Status::Cancelled, Stage::NONE, Feedback::None, SENT_AT, 60, 30);
    let error = reply(4, Status::Error, Stage::HANDLER, Feedback::None, SENT_AT + 2, 60, 20);
    let level = reply(5, Status::Ok, Stage::NONE, Feedback::Level(0x4a10), SENT_AT + 3, 700, 9);
    let error_body = [&404u16.to_le_bytes()[..], "naïve key".as_bytes()].concat();
    vec![
        ("reply-ok", ok, b"value".to_vec()),
        ("reply-rejected", rejected, Vec::new()),
        ("reply-cancelled", cancelled, Vec::new()),
        ("reply-error", error, error_body),
        ("reply-level", level, Vec::new()),
    ]
}

fn golden_responses() -> Vec<(&'static str, Response, Vec<u8>)> {
    let mut credit = Response::new(ResponseOp::Credit);
    credit.feedback = Feedback::Window { size: 4, seq: 7 };
    credit.queue_delay = us(20);
    let mut frames = golden_replies();
    frames.push(("settings", Response::new(ResponseOp::Settings), golden_settings().encode()));
    frames.push(("credit", credit, Vec::new()));
    frames.push(("goaway", Response::new(ResponseOp::Goaway), b"shutting down".to_vec()));
    for (_, response, body) in &mut frames {
        response.body_len = body.len() as u32;
    }
    frames
}

#[test]
fn requests_have_their_golden_bytes() {
    for (name, request, body) in golden_requests() {
        let bytes = golden_bytes(name);
        assert_eq!(bytes, [&request.encode()[..], &body].concat(), "{name}");
        assert_eq!(Request::decode(&bytes, BODY_MAX), Ok(request), "{name}");
        assert_eq!(request.frame_len(), bytes.len(), "{name}");
    }
}

#[test]
fn responses_have_their_golden_bytes() {
    for (name, response, body) in golden_responses() {
        let bytes = golden_bytes(name);
        assert_eq!(bytes, [&response.encode()[..], &body].concat(), "{name}");
        assert_eq!(Response::decode(&bytes, BODY_MAX), Ok(response), "{name}");
        assert_eq!(response.frame_len(), bytes.len(), "{name}");
    }
}

#[test]
fn golden_bodies_are_read() {
    assert_eq!(Hello::decode(&golden_bytes("hello")[HEADER_LEN..]), Ok(golden_hello()));
    let spills = golden_bytes("hello-spills");
    assert_eq!(Hello::decode(&spills[HEADER_LEN..]), Ok(golden_spilling_hello()));
    assert_eq!(Settings::decode(&golden_bytes("settings")[HEADER_LEN..]), Ok(golden_settings()));

    let (request, frame) = (full_call().0, golden_bytes("call-full"));
    let request = Request { body_len: (frame.len() - HEADER_LEN) as u32, ..request };
    let layout = request.layout(&frame).unwrap();
    assert_eq!(&frame[layout.payload], b"payload");
    let entries: Vec<_> = Entries::new(&frame[layout.extension]).collect();
    assert_eq!(entries, [Ok((7, &[0xa0, 0xa1, 0xa2, 0xa3, 0xa4][..])), Ok((8, &[][..]))]);
}

#[test]
fn execution_upstream_is_an_entry_of_the_extension_block() {
    let (mut request, frame) = (upstream_call().0, golden_bytes("call-upstream"));
    request.body_len = (frame.len() - HEADER_LEN) as u32;
    let layout = request.layout(&frame).unwrap();
    assert_eq!(&frame[layout.payload], b"next");
    request.read_extension(&frame[layout.extension]).unwrap();
    assert_eq!(request.claims.upstream_exec, us(1_234));

    let read = |block: &[u8]| {
        let mut request = upstream_call().0;
        request.read_extension(block).map(|()| request.claims.upstream_exec)
    };
    let entries = |values: &[&[u8]]| {
        let mut block = Vec::new();
        values.iter().for_each(|value| push_entry(&mut block, 3, value));
        push_entry(&mut block, 1, b"a trace");
        block
    };
    assert_eq!(read(b""), Ok(us(0)));
    assert_eq!(read(&entries(&[&[1, 0, 0, 0], &[2, 0, 0, 0]])), Ok(us(2)), "the last one counts");
    assert_eq!(read(&entries(&[&[1, 0, 0]])), Err(DecodeError::BadBlock));
    assert_eq!(read(&[3, 0, 4, 0, 1]), Err(DecodeError::BadBlock));
    assert_eq!(call(Claims::default()).extension_block(), None, "what is zero is not said");
}

/// The document and the test vectors cannot drift apart.
#[test]
fn the_document_shows_exactly_the_golden_frames() {
    let tested = golden_requests().into_iter().map(|(name, ..)| name);
    let tested = tested.chain(golden_responses().into_iter().map(|(name, ..)| name));
    let tested: BTreeSet<_> = tested.map(|name| format!("{name}.hex")).collect();
    let files = fs::read_dir(GOLDEN).unwrap();
    let files: BTreeSet<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(tested, files, "every golden frame is tested");

    let document = fs::read_to_string(DOCUMENT).unwrap();
    let shown = document.split("```hex\n").skip(1).map(|block| block.split("```").next().unwrap());
    let shown: BTreeSet<_> = shown.map(str::to_owned).collect();
    let files: BTreeSet<_> =
        files.iter().map(|file| golden(file.strip_suffix(".hex").unwrap())).collect();
    assert_eq!(shown, files, "WIRE.md shows every golden frame as it is");
}

/// The tables of both headers leave no gap, and stages have the names that the code gives them.
#[test]
fn the_tables_of_the_document_are_complete() {
    let document = fs::read_to_string(DOCUMENT).unwrap();
    let rows = |title: &str| {
        let table = document.split(title).nth(1).expect("the table exists");
        let rows = table.lines().skip_while(|line| !line.starts_with('|')).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        rows.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).skip(1).collect())
            .collect::<Vec<Vec<String>>>()
    };
    for title in ["### Request header\n", "### Response header\n"] {
        let mut end = 0;
        for row in rows(title) {
            assert_eq!(row[0].parse(), Ok(end), "{title}: {row:?}");
            end += row[1].parse::<usize>().unwrap();
        }
        assert_eq!(end, HEADER_LEN, "{title}");
    }
    let stages = rows("### Stages\n");
    let named = stages.iter().filter_map(|row| Some((row[0].parse().ok()?, row[1].as_str())));
    let named: Vec<(u8, &str)> = named.collect();
    let code = (0..=255).filter_map(|stage| Some((stage, Stage(stage).name()?)));
    let code: Vec<(u8, String)> = code.map(|(stage, name)| (stage, format!("`{name}`"))).collect();
    assert!(named.iter().copied().eq(code.iter().map(|(stage, name)| (*stage, name.as_str()))));
}
