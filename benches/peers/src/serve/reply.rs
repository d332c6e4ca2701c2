//! Replies of both protocols.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};

use super::Protocol;

/// Codes of gRPC.
const INTERNAL: &str = "13";
const UNAVAILABLE: &str = "14";

/// A message of gRPC: a `google.protobuf.BytesValue` of the five bytes that HTTP answers.
const MESSAGE: &[u8] = b"\0\0\0\0\x07\x0a\x05done\n";

/// What the request carries. Of gRPC that is the value behind prefix, tag and length; all bodies of
/// the workloads are shorter than 128 bytes, so that the length is one byte.
pub(super) fn payload(protocol: Protocol, body: &Bytes) -> Bytes {
    match protocol {
        Protocol::Http => body.clone(),
        Protocol::Grpc => body.slice(body.len().min(7)..),
    }
}

/// It was served.
pub(super) fn done(protocol: Protocol) -> Response {
    match protocol {
        Protocol::Http => Response::new(Body::from("done\n")),
        Protocol::Grpc => {
            let trailers = HeaderMap::from_iter([status("0")]);
            let body = Full::new(Bytes::from_static(MESSAGE));
            let body = body.with_trailers(async move { Some(Ok(trailers)) });
            grpc(Response::new(Body::new(body)))
        }
    }
}

/// It failed, for reasons that have nothing to do with load.
pub(super) fn failed(protocol: Protocol) -> Response {
    ended(protocol, StatusCode::INTERNAL_SERVER_ERROR, INTERNAL)
}

/// It was refused.
pub(super) fn refused(protocol: Protocol) -> Response {
    ended(protocol, StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE)
}

fn ended(protocol: Protocol, http: StatusCode, code: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    match protocol {
        Protocol::Http => {
            *response.status_mut() = http;
            response
        }
        Protocol::Grpc => {
            let (name, value) = status(code);
            response.headers_mut().insert(name, value);
            grpc(response)
        }
    }
}

fn status(code: &'static str) -> (axum::http::HeaderName, HeaderValue) {
    (axum::http::HeaderName::from_static("grpc-status"), HeaderValue::from_static(code))
}

fn grpc(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
