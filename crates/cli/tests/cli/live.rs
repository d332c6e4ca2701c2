//! The listener with the metrics and the page that draws them.

use seawall_measure::names;

use crate::support::{Served, fail, succeed};
use crate::watched::{Watched, ask};

#[test]
fn the_page_comes_with_all_that_it_needs() {
    let watched = Watched::start(&["synthetic"]);
    let page = watched.get("/");
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.body.starts_with("<!DOCTYPE html>") && page.body.trim_end().ends_with("</html>"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(watched.get("/healthz").body, "ok\n");
    let missing = watched.get("/other");
    assert_eq!((missing.status, missing.body.contains("/metrics")), (404, true));
}

#[test]
fn what_is_read_is_not_older_than_the_question() {
    let watched = Watched::start(&["synthetic", "--service=const:10us"]);
    let before = watched.get("/metrics");
    let sent = watched.load(&[]);
    // At once, not at the next tick.
    assert_eq!(watched.value(&names::REQUESTS), Some(sent));
    let after = watched.get("/metrics");
    let at = |answer: &str| answer.parse::<f64>().unwrap();
    let (first, second) = (before.header("seawall-at"), after.header("seawall-at"));
    assert!(at(first.unwrap()) < at(second.unwrap()), "{first:?} {second:?}");
    let about = after.header("seawall-about").unwrap();
    assert!(about.contains("algorithm breakwater, SLO 5s"), "{about}");
    assert_eq!(after.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
}

#[test]
fn other_names_are_not_answered_unless_they_are_allowed() {
    let serve = ["--metrics", "127.0.0.1:0", "--allow-host", "metrics.internal", "synthetic"];
    let server = Served::start(&serve);
    let status = |path: &str, host: &str| {
        let request = format!("GET {path} HTTP/1.1");
        ask(&server.metrics(), &[&request, &format!("Host: {host}")]).status
    };
    for path in ["/", "/metrics", "/healthz"] {
        assert_eq!(status(path, "rebound.example"), 421, "{path}");
        assert_eq!(status(path, &server.metrics()), 200, "{path}");
        assert_eq!(status(path, "metrics.internal:9117"), 200, "{path}");
    }
    let post = ask(&server.metrics(), &["POST / HTTP/1.1", "Host: localhost", "Content-Length: 0"]);
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    let head = ask(&server.metrics(), &["HEAD /metrics HTTP/1.1", "Host: localhost"]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let bare = ["serve", "synthetic", "--allow-host", "http://metrics.internal"];
    fail(&bare, &["metrics.allow_hosts", "http://metrics.internal is no host", "without scheme"]);
}

#[test]
fn without_the_option_nobody_listens() {
    let server = Served::start(&["synthetic"]);
    assert!(server.says_nothing_of_metrics());
    let config = succeed(&["serve", "kv", "--print-config"]).stdout;
    assert!(config.contains("# listen = \"127.0.0.1:9117\""), "{config}");
}
