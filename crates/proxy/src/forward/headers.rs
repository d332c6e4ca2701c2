//! What of a message's fields concerns one connection only, and what is added on the way.

use hyper::header::{
    CONNECTION, COOKIE, EXPECT, Entry, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use super::failure::Failure;
use crate::config::{Config, Forwarded};
use crate::listen::Connection;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What this proxy is called in `Via`.
const PSEUDONYM: &str = "seawall";

/// The host that a request names, with its port: of the target, which counts (RFC 9112 §3.2.2), or
/// of the field.
pub(super) fn host(parts: &Parts) -> Option<&str> {
    match parts.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => parts.headers.get(HOST)?.to_str().ok(),
    }
}

/// Refuses what could be read in two ways, and what cannot be passed on.
pub(super) fn check(parts: &Parts) -> Result<(), Failure> {
    if parts.method == Method::CONNECT {
        return Err(Failure::Method);
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(Failure::Bad("there are several Host fields"));
    }
    // RFC 9112 §3.2: a request without Host is refused, and so is one with what is no host.
    if first.is_none() && parts.uri.authority().is_none() && parts.version == Version::HTTP_11 {
        return Err(Failure::Bad("there is no Host field"));
    }
    if first.is_some_and(|host| !is_host(host.as_bytes())) {
        return Err(Failure::Bad("the Host field is no host"));
    }
    if parts.uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(Failure::Bad("the target names a user"));
    }
    Ok(())
}

/// Whether all characters are such as may be in a host and port (RFC 3986 §3.2).
fn is_host(host: &[u8]) -> bool {
    host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:[]".contains(byte))
}

/// The protocol that a client wants to switch to, if that is allowed: one of `allowed`.
pub(super) fn upgrade(parts: &Parts, config: &Config) -> Option<HeaderValue> {
    let wanted = parts.headers.get(UPGRADE)?;
    let is_asked = parts.version == Version::HTTP_11
        && tokens(&parts.headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    let name = wanted.to_str().ok()?.trim();
    // Some send `WebSocket`. A list of several is not passed on: one of them may be h2c.
    let is_allowed = config.upgrades.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
    (is_asked && is_allowed).then(|| wanted.clone())
}

/// Takes away what is meant for this proxy alone (RFC 9110 §7.6.1), and adds what the upstream is
/// to know. `upgrade` is what the client may switch to.
pub(super) fn to_upstream(
    parts: &mut Parts,
    connection: &Connection,
    config: &Config,
    upgrade: Option<&HeaderValue>,
) {
    // Before the Host may be rewritten, and after nothing of the client's own is trusted.
    let wants_trailers =
        tokens(&parts.headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    remove_hop_by_hop(&mut parts.headers);
    let headers = &mut parts.headers;
    headers.remove(PROXY_AUTHORIZATION);
    // Deviation: RFC 9110 §10.1.1 lets a proxy answer 100 itself, which is done when the upstream
    // takes the first of the body; so the upstream must not be asked once more.
    headers.remove(EXPECT);
    if wants_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = upgrade {
        headers.insert(UPGRADE, protocol.clone());
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    if config.forwarded != Forwarded::Off {
        forwarded(parts, connection, config.forwarded == Forwarded::Replace);
    }
    if config.via {
        let version = match parts.version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => "1.1",
        };
        if let Ok(via) = HeaderValue::try_from(format!("{version} {PSEUDONYM}")) {
            parts.headers.append(VIA, via);
        }
    }
}

fn forwarded(parts: &mut Parts, connection: &Connection, replaces: bool) {
    let host = match parts.uri.authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => parts.headers.get(HOST).cloned(),
    };
    let headers = &mut parts.headers;
    let proto = HeaderValue::from_static(if connection.is_tls { "https" } else { "http" });
    if replaces {
        headers.insert(X_FORWARDED_FOR, connection.client.clone());
        headers.insert(X_FORWARDED_PROTO, proto);
        match host {
            Some(host) => _ = headers.insert(X_FORWARDED_HOST, host),
            None => _ = headers.remove(X_FORWARDED_HOST),
        }
        return;
    }
    // Several fields of a name are one list (RFC 9110 §5.3), so appending a field is enough.
    headers.append(X_FORWARDED_FOR, connection.client.clone());
    if let Entry::Vacant(vacant) = headers.entry(X_FORWARDED_PROTO) {
        vacant.insert(proto);
    }
    if let (Entry::Vacant(vacant), Some(host)) = (headers.entry(X_FORWARDED_HOST), host) {
        vacant.insert(host);
    }
}

/// Takes away what of a response concerns the upstream's connection alone. `upgrade` is set when it
/// switches to another protocol.
pub(super) fn to_client(headers: &mut HeaderMap, upgrade: bool) {
    let protocol = if upgrade { headers.get(UPGRADE).cloned() } else { None };
    remove_hop_by_hop(headers);
    headers.remove(PROXY_AUTHENTICATE);
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Gives a request the form that HTTP/1.1 has.
pub(super) fn for_http1(parts: &mut Parts) {
    if parts.version == Version::HTTP_2 {
        join_cookies(&mut parts.headers);
    }
    // TE concerns one connection, and has to say so there (RFC 9110 §10.1.4).
    if parts.headers.contains_key(TE) && !parts.headers.contains_key(CONNECTION) {
        parts.headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
}

/// One cookie field, where HTTP/2 may have several (RFC 9113 §8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(COOKIE, cookie);
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
            .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
            // Who names this would only break its own request, or hide where it is meant for.
            .filter(|name| name != HOST)
            .collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, TE, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
}

/// The members of a comma-separated list.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|token| {
        let token = token.split(';').next().unwrap_or_default();
        token.trim()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn fields_of_one_connection_are_removed_and_those_that_it_names() {
        let mut message = headers(&[
            ("connection", "close, X-Own , host"),
            ("connection", "x-other"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("te", "gzip;q=0.5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-own", "1"),
            ("x-other", "2"),
            ("host", "a.example"),
            ("trailer", "x-sum"),
            ("content-type", "text/plain"),
        ]);
        remove_hop_by_hop(&mut message);
        let mut left: Vec<_> = message.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-type", "host", "trailer"]);
    }

    #[test]
    fn crumbs_become_one_cookie() {
        let mut message = headers(&[("cookie", "a=1"), ("cookie", "b=2; c=3"), ("cookie", "d=4")]);
        join_cookies(&mut message);
        let cookies: Vec<_> = message.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2; c=3; d=4"]);
    }

    #[test]
    fn a_host_is_one_host() {
        let check = |pairs: &[(&'static str, &'static str)]| {
            let (mut parts, ()) = hyper::Request::new(()).into_parts();
            parts.headers = headers(pairs);
            check(&parts).is_ok()
        };
        assert!(check(&[("host", "a.example:80")]) && check(&[("host", "[::1]:80")]));
        assert!(check(&[("host", "")]), "an empty one is allowed (RFC 9112 §3.2)");
        assert!(!check(&[]));
        assert!(!check(&[("host", "a"), ("host", "b")]));
        for bad in ["a b", "a/b", "u@a", "a?b", "a#b"] {
            assert!(!check(&[("host", bad)]), "{bad}");
        }
    }
}
