//! The wire format: golden frames, which WIRE.md shows too, and what must hold for any bytes.

mod golden;

use std::time::Duration;

use proptest::prelude::*;
use seawall_control::controller::Feedback;
use seawall_control::request::{Claims, Priority, Stage, Tenant};
use seawall_control::wire::{
    DecodeError, Entries, HEADER_LEN, Hello, Request, RequestOp, Response, ResponseOp, Settings,
    Status, VERSION, push_entry,
};

const BODY_MAX: u32 = 1 << 20;

const REQUEST_OPS: [RequestOp; 5] =
    [RequestOp::Hello, RequestOp::Call, RequestOp::Demand, RequestOp::Cancel, RequestOp::Goodbye];
const RESPONSE_OPS: [ResponseOp; 4] =
    [ResponseOp::Settings, ResponseOp::Reply, ResponseOp::Credit, ResponseOp::Goaway];
const STATUSES: [Status; 4] = [Status::Ok, Status::Rejected, Status::Cancelled, Status::Error];

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn call(claims: Claims) -> Request {
    Request { claims, ..Request::new(RequestOp::Call) }
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
