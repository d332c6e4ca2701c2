//! Arbitrary bytes as the `seawall` field of requests and responses, and as `grpc-timeout`.
//!
//! Nothing of it may panic; what is understood is written so that it is understood as the same; and
//! what is no dictionary says nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_control::fields::{Name, Reading, Request, Response, timeout};

fuzz_target!(|data: &[u8]| {
    // A line feed cannot be within a header, and stands for the begin of another line of it.
    let lines = || data.split(|byte| *byte == b'\n');
    let request = Request::read(lines());
    if request.malformed {
        assert_eq!(request, Reading { malformed: true, ..Reading::default() });
    }
    let text = request.fields.to_string();
    let again = Reading { fields: request.fields, ignored: 0, malformed: false };
    assert_eq!(Request::read([text.as_bytes()]), again);

    let response = Response::read(lines());
    assert_eq!(response.malformed, request.malformed);
    let text = response.fields.to_string();
    let again = Reading { fields: response.fields, ignored: 0, malformed: false };
    assert_eq!(Response::read([text.as_bytes()]), again);

    if let Some(left) = timeout::parse(data) {
        let text = timeout::format(left).to_string();
        assert!(timeout::parse(text.as_bytes()).is_some_and(|read| read <= left));
    }
    if let Ok(text) = str::from_utf8(data) {
        assert_eq!(Name::new(Name::lossy(text).as_str()), Some(Name::lossy(text)));
    }
});
