//! Requests of the listener, and what is answered.

use std::fmt::Write;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Version};

use super::fetch::{ABOUT, AT};
use super::{Hosts, View, page};

const PLAIN: &str = "text/plain; charset=utf-8";

/// Version 0.0.4 of Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

const HTML: &str = "text/html; charset=utf-8";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    Page,
    Metrics,
    Health,
    /// Not to be had, with the reason.
    Refused(StatusCode, String),
}

/// Answers a request.
pub(super) async fn answer<B>(view: &View, request: Request<B>) -> Response<Full<Bytes>> {
    match route(&view.hosts, &request) {
        Route::Page => {
            let page = page::page();
            let mut response = respond(StatusCode::OK, HTML, page.html.clone());
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, page.policy.clone());
            response
        }
        Route::Metrics => {
            let reading = view.source.read().await;
            let mut response = respond(StatusCode::OK, METRICS, reading.text.into());
            let at = HeaderValue::try_from(reading.at).ok();
            let about = HeaderValue::try_from(encoded(&view.about.line())).ok();
            for (name, value) in [(AT, at), (ABOUT, about)] {
                if let Some(value) = value {
                    response.headers_mut().insert(HeaderName::from_static(name), value);
                }
            }
            response
        }
        Route::Health => respond(StatusCode::OK, PLAIN, Bytes::from_static(b"ok\n")),
        Route::Refused(status, reason) => {
            let mut response = respond(status, PLAIN, (reason + "\n").into());
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            response
        }
    }
}

fn route<B>(hosts: &Hosts, request: &Request<B>) -> Route {
    if let Err((status, reason)) = is_for_us(hosts, request) {
        return Route::Refused(status, reason);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let reason = "only GET and HEAD are possible here";
        return Route::Refused(StatusCode::METHOD_NOT_ALLOWED, reason.to_owned());
    }
    match request.uri().path() {
        "/" => Route::Page,
        "/metrics" => Route::Metrics,
        "/healthz" => Route::Health,
        _ => {
            let reason = "there are / (the live page), /metrics and /healthz";
            Route::Refused(StatusCode::NOT_FOUND, reason.to_owned())
        }
    }
}

/// Whether the request was sent to a name that we answer to.
fn is_for_us<B>(hosts: &Hosts, request: &Request<B>) -> Result<(), (StatusCode, String)> {
    // RFC 9112 §3.2.2: the authority of a target in absolute form goes over the header.
    let authority = match request.uri().authority() {
        Some(authority) => Some(authority.clone()),
        None => {
            let mut values = request.headers().get_all(HOST).iter();
            let value = values.next().and_then(|host| host.to_str().ok());
            let is_only = values.next().is_none();
            value.filter(|_| is_only).and_then(|host| host.parse::<Authority>().ok())
        }
    };
    match authority {
        Some(authority) if hosts.allow(authority.host()) => Ok(()),
        Some(authority) => {
            let host = authority.host();
            let reason = format!(
                "this server does not answer to the name {host}; where that is right, let it be \
                 started with --allow-host {host}"
            );
            Err((StatusCode::MISDIRECTED_REQUEST, reason))
        }
        // HTTP/1.0 knows no hosts, and no browser speaks it.
        None if request.version() == Version::HTTP_10 && !request.headers().contains_key(HOST) => {
            Ok(())
        }
        None => Err((StatusCode::BAD_REQUEST, "one Host header is needed".to_owned())),
    }
}

fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    // Not stored, not guessed at, not told to anybody, not readable from other sites.
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A line as a header can carry it: what is not plain ASCII is percent-encoded (RFC 3986 §2.1).
fn encoded(line: &str) -> String {
    line.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => write!(text, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
        text
    })
}

/// What [`encoded`] has made.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let digits = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (rest, _) = match (first, byte) {
            (b'%', Some(byte)) => (&more[2..], bytes.push(byte)),
            _ => (more, bytes.push(first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str, hosts: &[&str]) -> Request<()> {
        let (method, target) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    fn status(request: &Request<()>) -> u16 {
        match route(&Hosts::default(), request) {
            Route::Refused(status, _) => status.as_u16(),
            _ => 200,
        }
    }

    #[test]
    fn three_things_are_to_be_had() {
        let found = |target| route(&Hosts::default(), &request(target, &["localhost:9117"]));
        assert_eq!(found("GET /"), Route::Page);
        assert_eq!(found("HEAD /metrics?x=1"), Route::Metrics);
        assert_eq!(found("GET /healthz"), Route::Health);
        assert!(matches!(found("GET /other"), Route::Refused(StatusCode::NOT_FOUND, _)));
        assert!(matches!(found("POST /"), Route::Refused(StatusCode::METHOD_NOT_ALLOWED, _)));
    }

    #[test]
    fn who_asks_for_another_name_is_refused() {
        assert_eq!(status(&request("GET /metrics", &["127.0.0.1:9117"])), 200);
        assert_eq!(status(&request("GET /metrics", &["[::1]:9117"])), 200);
        assert_eq!(status(&request("GET /metrics", &["rebound.example:9117"])), 421);
        // Neither a second header nor an absolute target is a way around that.
        assert_eq!(status(&request("GET /metrics", &["localhost", "rebound.example"])), 400);
        assert_eq!(status(&request("GET http://rebound.example/", &["localhost"])), 421);
        assert_eq!(status(&request("GET http://localhost/", &["rebound.example"])), 200);
        assert_eq!(status(&request("GET /", &["a b"])), 400);
        assert_eq!(status(&request("GET /", &[])), 400);
        let mut old = request("GET /metrics", &[]);
        *old.version_mut() = Version::HTTP_10;
        assert_eq!(status(&old), 200);
    }

    #[test]
    fn a_refusal_says_what_would_help() {
        let refused = route(&Hosts::default(), &request("GET /", &["metrics.internal:9117"]));
        let Route::Refused(_, reason) = refused else { panic!("{refused:?}") };
        assert!(reason.ends_with("--allow-host metrics.internal"), "{reason}");
        let hosts = Hosts::new(&["metrics.internal".to_owned()]).unwrap();
        let allowed = route(&hosts, &request("GET /", &["metrics.internal:9117"]));
        assert_eq!(allowed, Route::Page);
    }

    #[test]
    fn any_line_fits_a_header() {
        let line = "exp:100µs, 5 % of\nall — ok";
        let text = encoded(line);
        assert!(text.is_ascii() && !text.contains('\n'), "{text}");
        assert_eq!(decoded(&text), line);
        assert_eq!(decoded("100%, %zz %4"), "100%, %zz %4");
    }
}
