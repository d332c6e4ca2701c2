//! The wire format: golden frames, which WIRE.md shows too, and what must hold for any bytes.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use seawall_control::controller::Feedback;
use seawall_control::request::{Claims, Priority, Stage, Tenant};
use seawall_control::wire::{
    DecodeError, Entries, HEADER_LEN, Hello, Request, RequestOp, Response, ResponseOp, Settings,
    Status, VERSION, push_entry,
};

const BODY_MAX: u32 = 1 << 20;
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../WIRE.md");

const REQUEST_OPS: [RequestOp; 5] =
    [RequestOp::Hello, RequestOp::Call, RequestOp::Demand, RequestOp::Cancel, RequestOp::Goodbye];
const RESPONSE_OPS: [ResponseOp; 4] =
    [ResponseOp::Settings, ResponseOp::Reply, ResponseOp::Credit, ResponseOp::Goaway];
const STATUSES: [Status; 4] = [Status::Ok, Status::Rejected, Status::Cancelled, Status::Error];

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

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

fn call(claims: Claims) -> Request {
    Request { claims, ..Request::new(RequestOp::Call) }
}

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

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

fn micros() -> impl Strategy<Value = Duration> {
    prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)].prop_map(|micros| us(u64::from(micros)))
}

prop_compose! {
    fn claims()(
        (id, method, priority, tenant) in any::<(u64, u16, u8, u32)>(),
        (attempt, droppable) in any::<(u8, bool)>(),
        deadline in prop::option::of(micros()),
        budget in prop::option::of(micros()),
        (upscale_hops, path, start_time_ns, sent_at_ns) in any::<(u16, u16, u64, u64)>(),
    ) -> Claims {
        let (priority, tenant) = (Priority(priority), Tenant(tenant));
        Claims {
            id, method, priority, tenant, attempt, droppable, deadline, budget, upscale_hops, path,
            start_time_ns, sent_at_ns, upstream_exec: Duration::ZERO,
        }
    }
}

prop_compose! {
    fn request()(
        op in prop::sample::select(&REQUEST_OPS[..]),
        claims in claims(),
        (demand, window_ack, extension) in any::<(u32, u32, bool)>(),
        body_len in 0..=BODY_MAX,
    ) -> Request {
        Request { op, claims, demand, window_ack, extension, body_len }
    }
}

fn feedback() -> impl Strategy<Value = Feedback> {
    prop_oneof![
        Just(Feedback::None),
        any::<(u32, u32)>().prop_map(|(size, seq)| Feedback::Window { size, seq }),
        any::<u16>().prop_map(Feedback::Level),
    ]
}

prop_compose! {
    fn response()(
        op in prop::sample::select(&RESPONSE_OPS[..]),
        status in prop::sample::select(&STATUSES[..]),
        feedback in feedback(),
        (stage, id, sent_at_ns) in any::<(u8, u64, u64)>(),
        body_len in 0..=BODY_MAX,
        (predicted_delay, queue_delay, retry_after, service)
            in (micros(), micros(), micros(), micros()),
    ) -> Response {
        let stage = Stage(stage);
        Response {
            op, status, stage, body_len, feedback, id, predicted_delay, queue_delay, retry_after,
            service, sent_at_ns,
        }
    }
}

/// A request and a body whose extension block, if it has one, fits; as one frame.
fn request_frame() -> impl Strategy<Value = (Request, Vec<u8>)> {
    (request(), bytes(40), bytes(40)).prop_map(|(mut request, extension, payload)| {
        let mut body = Vec::new();
        if request.extension {
            body.extend_from_slice(&(extension.len() as u32).to_le_bytes());
            body.extend_from_slice(&extension);
        }
        body.extend_from_slice(&payload);
        request.body_len = body.len() as u32;
        (request, [&request.encode()[..], &body].concat())
    })
}

/// Bytes of any kind, or bytes that begin like a frame.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![Just(*b"SWRQ"), Just(*b"SWRS")];
    let like_a_frame =
        (start, any::<bool>(), 0..6u8, bytes(200)).prop_map(|(magic, good, op, rest)| {
            let version = if good { VERSION } else { op };
            [&magic[..], &[version, op, op / 2, 0], &rest].concat()
        });
    prop_oneof![bytes(200), like_a_frame]
}

fn text(max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..max).prop_map(|text| text.into_iter().collect())
}

/// What a decoder says about every beginning of a header.
fn check_prefixes<T: std::fmt::Debug>(
    frame: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<(), TestCaseError> {
    for len in 0..HEADER_LEN {
        match decode(&frame[..len]) {
            Err(DecodeError::Incomplete { missing }) => prop_assert_eq!(missing, HEADER_LEN - len),
            other => prop_assert!(false, "{} bytes are called {:?}", len, other),
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn requests_survive_the_wire(request in request()) {
        let header = request.encode();
        prop_assert_eq!(Request::decode(&header, BODY_MAX), Ok(request));
        check_prefixes(&header, |bytes| Request::decode(bytes, BODY_MAX))?;
    }

    #[test]
    fn responses_survive_the_wire(response in response()) {
        let header = response.encode();
        prop_assert_eq!(Response::decode(&header, BODY_MAX), Ok(response));
        check_prefixes(&header, |bytes| Response::decode(bytes, BODY_MAX))?;
    }

    #[test]
    fn times_beyond_the_wire_saturate(extra: u32, nanos in 0..1_000u64) {
        let time = us(u64::from(u32::MAX) + u64::from(extra)) + Duration::from_nanos(nanos);
        let claims = Claims { deadline: Some(time), budget: Some(time), ..Claims::default() };
        let request = Request::decode(&call(claims).encode(), BODY_MAX).unwrap();
        let longest = Some(us(u64::from(u32::MAX)));
        prop_assert_eq!((request.claims.deadline, request.claims.budget), (longest, longest));
    }

    #[test]
    fn truncated_frames_are_incomplete((request, frame) in request_frame()) {
        let layout = request.layout(&frame).unwrap();
        prop_assert!(layout.extension.end <= layout.payload.start);
        prop_assert_eq!(layout.payload.end, frame.len());
        for len in 0..frame.len() {
            let missing = frame.len() - len;
            let error = request.layout(&frame[..len]);
            prop_assert_eq!(error, Err(DecodeError::Incomplete { missing }));
        }
    }

    #[test]
    fn decoding_any_bytes_never_panics_and_reads_no_more_than_it_says(
        input in input(),
        behind in bytes(80),
    ) {
        let longer = [&input[..], &behind].concat();
        match Request::decode(&input, BODY_MAX) {
            Ok(request) => {
                prop_assert_eq!(Request::decode(&longer, BODY_MAX), Ok(request));
                let layout = request.layout(&input);
                if let Ok(layout) = &layout {
                    prop_assert_eq!(layout.payload.end, request.frame_len());
                    let _ = Entries::new(&input[layout.extension.clone()]).count();
                    prop_assert_eq!(&request.layout(&longer), &Ok(layout.clone()));
                }
            }
            Err(DecodeError::Incomplete { missing }) => prop_assert!(missing > 0),
            Err(_) => prop_assert!(Request::decode(&longer, BODY_MAX).is_err()),
        }
        if let Ok(response) = Response::decode(&input, BODY_MAX) {
            prop_assert_eq!(Response::decode(&longer, BODY_MAX), Ok(response));
        }
        let _ = (Hello::decode(&input), Settings::decode(&input), Entries::new(&input).find(3));
    }

    #[test]
    fn a_wrong_magic_shows_at_once(request in request(), at in 0..4usize, flip in 1..=255u8) {
        let mut header = request.encode();
        header[at] ^= flip;
        for len in at + 1..=HEADER_LEN {
            let mut found = [0; 4];
            let seen = len.min(4);
            found[..seen].copy_from_slice(&header[..seen]);
            let error = Request::decode(&header[..len], BODY_MAX);
            prop_assert_eq!(error, Err(DecodeError::BadMagic { found }));
        }
    }

    #[test]
    fn each_damage_to_a_request_has_its_error(
        request in request(),
        version in any::<u8>().prop_filter("known", |version| *version != VERSION),
        op in 5..=255u8,
        reserved in 4..16u32,
        over in 1..=u32::MAX - BODY_MAX,
    ) {
        let damaged = |at: usize, bytes: &[u8]| {
            let mut header = request.encode();
            header[at..at + bytes.len()].copy_from_slice(bytes);
            Request::decode(&header, BODY_MAX).unwrap_err()
        };
        prop_assert_eq!(damaged(4, &[version]), DecodeError::BadVersion { version });
        prop_assert_eq!(damaged(5, &[op]), DecodeError::BadOp { op });
        let flags = u16::from_le_bytes([request.encode()[6], 0]) | 1 << reserved;
        prop_assert_eq!(damaged(6, &flags.to_le_bytes()), DecodeError::ReservedFlag { flags });
        let len = BODY_MAX + over;
        let too_large = DecodeError::TooLarge { len, max: BODY_MAX };
        prop_assert_eq!(damaged(8, &len.to_le_bytes()), too_large);
    }

    #[test]
    fn each_damage_to_a_response_has_its_error(
        response in response(),
        version in any::<u8>().prop_filter("known", |version| *version != VERSION),
        op in 4..=255u8,
        flags in 3..=u16::MAX,
        over in 1..=u32::MAX - BODY_MAX,
    ) {
        let damaged = |at: usize, bytes: &[u8]| {
            let mut header = response.encode();
            header[at..at + bytes.len()].copy_from_slice(bytes);
            Response::decode(&header, BODY_MAX).unwrap_err()
        };
        prop_assert_eq!(damaged(4, &[version]), DecodeError::BadVersion { version });
        prop_assert_eq!(damaged(5, &[op]), DecodeError::BadOp { op });
        prop_assert_eq!(damaged(6, &[op]), DecodeError::BadStatus { status: op });
        prop_assert_eq!(damaged(12, &flags.to_le_bytes()), DecodeError::ReservedFlag { flags });
        let len = BODY_MAX + over;
        let too_large = DecodeError::TooLarge { len, max: BODY_MAX };
        prop_assert_eq!(damaged(8, &len.to_le_bytes()), too_large);
    }

    #[test]
    fn an_extension_block_longer_than_the_body_is_bad(rest in 0..40usize, over in 1..=u32::MAX) {
        let len = (rest as u32).saturating_add(over);
        let body = [&len.to_le_bytes()[..], &vec![0; rest]].concat();
        for body in [&body[..], &body[..3]] {
            let request = Request { extension: true, ..Request::new(RequestOp::Call) };
            let request = Request { body_len: body.len() as u32, ..request };
            let frame = [&request.encode()[..], body].concat();
            prop_assert_eq!(request.layout(&frame), Err(DecodeError::BadBlock));
        }
    }

    #[test]
    fn entries_survive_and_a_cut_shows(
        entries in prop::collection::vec((0..9u16, bytes(20)), 1..9),
        cut in 1..4usize,
    ) {
        let mut block = Vec::new();
        entries.iter().for_each(|(tag, value)| push_entry(&mut block, *tag, value));
        let read: Result<Vec<_>, _> = Entries::new(&block).collect();
        let expected: Vec<_> = entries.iter().map(|(tag, value)| (*tag, &value[..])).collect();
        prop_assert_eq!(read, Ok(expected));
        for tag in 0..10 {
            let first = entries.iter().find(|(found, _)| *found == tag);
            let first = first.map(|(_, value)| &value[..]);
            prop_assert_eq!(Entries::new(&block).find(tag), Ok(first));
        }
        block.truncate(block.len() - cut);
        let last = Entries::new(&block).last();
        prop_assert_eq!(last, Some(Err(DecodeError::BadBlock)));
    }

    #[test]
    fn hello_survives_the_wire(
        name in text(60),
        token in prop::option::of(bytes(60)),
        spills in any::<bool>(),
        unknown in 4..=u16::MAX,
    ) {
        let hello = Hello { name, token, spills };
        let mut body = hello.encode();
        push_entry(&mut body, unknown, b"from the future");
        prop_assert_eq!(Hello::decode(&body), Ok(hello));
    }

    #[test]
    fn settings_survive_the_wire(
        algorithm in text(60),
        (body_max, outstanding_max) in any::<(u32, u32)>(),
        slo in micros(),
        stages in prop::collection::vec((any::<u8>().prop_map(Stage), text(30)), 0..8),
        unknown in 6..=u16::MAX,
    ) {
        let settings = Settings { algorithm, body_max, outstanding_max, slo, stages };
        let mut body = settings.encode();
        push_entry(&mut body, unknown, b"from the future");
        prop_assert_eq!(Settings::decode(&body), Ok(settings));
    }

    #[test]
    fn a_stream_may_be_cut_anywhere(
        frames in prop::collection::vec(request_frame(), 1..8),
        cuts in prop::collection::vec(1..200usize, 1..40),
    ) {
        let stream: Vec<u8> = frames.iter().flat_map(|(_, frame)| frame.clone()).collect();
        let mut cuts = cuts.into_iter().cycle();
        let (mut at, mut received, mut wanted) = (0, 0, 1);
        let mut read = Vec::new();
        while received < stream.len() {
            received = (received + cuts.next().unwrap()).min(stream.len());
            // What is said to be missing is waited for: were it too much, the end would not come.
            while received - at >= wanted {
                let input = &stream[at..received];
                let frame = Request::decode(input, BODY_MAX)
                    .and_then(|request| request.layout(input).map(|_| request));
                match frame {
                    Ok(request) => {
                        read.push((request, input[..request.frame_len()].to_vec()));
                        at += request.frame_len();
                        wanted = 1;
                    }
                    Err(DecodeError::Incomplete { missing }) => wanted = input.len() + missing,
                    Err(error) => prop_assert!(false, "{} at {}", error, at),
                }
            }
        }
        prop_assert_eq!(read, frames);
    }
}

#[test]
fn what_is_too_long_for_hello_and_settings_is_cut_or_refused() {
    let long = "é".repeat(Hello::MAX_LEN);
    let token = Some(vec![7; Hello::MAX_LEN + 1]);
    let hello = Hello { name: long.clone(), token, spills: false };
    let read = Hello::decode(&hello.encode()).unwrap();
    assert_eq!(read.name, long[..Hello::MAX_LEN]);
    assert_eq!(read.token, Some(vec![7; Hello::MAX_LEN]));

    let mut body = Vec::new();
    push_entry(&mut body, 2, &[7; Hello::MAX_LEN + 1]);
    assert_eq!(Hello::decode(&body), Err(DecodeError::BadBlock));

    // Repair makes text three times as long, and must still leave what can be sent on.
    let mut body = Vec::new();
    push_entry(&mut body, 1, &[0xff; 60_000]);
    push_entry(&mut body, 5, &[0xff; 60_000]);
    let settings = Settings::decode(&body).unwrap();
    assert_eq!(Settings::decode(&settings.encode()), Ok(settings));
}

#[test]
fn numbers_in_settings_have_four_bytes() {
    for (tag, value) in [(2, &[1, 2, 3][..]), (3, &[]), (4, &[0; 5]), (5, &[])] {
        let mut body = Vec::new();
        push_entry(&mut body, tag, value);
        assert_eq!(Settings::decode(&body), Err(DecodeError::BadBlock), "tag {tag}");
    }
}

#[test]
fn a_stranger_is_told_what_it_said() {
    let error = Request::decode(b"GET / HTTP/1.1\r\n", BODY_MAX).unwrap_err();
    assert_eq!(error.to_string(), "not a Seawall frame: it starts with \"GET \"");
}
