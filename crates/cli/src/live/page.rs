//! The page, as one document: its parts are in the folder `page`, and nothing else is fetched.
//!
//! That nothing else *can* be fetched or run, the policy sent with it says (CSP, level 3): script
//! and style are known by their digests, and the only address to talk to is this server's own.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use ring::digest::{SHA256, digest};

const DOCUMENT: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");

/// In the order in which they need each other; the first five need no browser.
const SCRIPTS: [&str; 9] = [
    include_str!("page/text.js"),
    include_str!("page/format.js"),
    include_str!("page/picture.js"),
    include_str!("page/proxy.js"),
    include_str!("page/recent.js"),
    include_str!("page/dom.js"),
    include_str!("page/chart.js"),
    include_str!("page/show.js"),
    include_str!("page/main.js"),
];

/// Where style and script go in the document.
const STYLE_MARK: &str = "/* style.css */";
const SCRIPT_MARK: &str = "/* scripts */";

/// The page and what it may do.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) html: Bytes,
    pub(super) policy: HeaderValue,
}

/// The page, which is the same for everybody.
pub(super) fn page() -> &'static Page {
    static PAGE: LazyLock<Page> = LazyLock::new(build);
    &PAGE
}

fn build() -> Page {
    // One scope of its own: their names are nobody else's.
    let script = format!("\"use strict\";\n{{\n{}}}\n", SCRIPTS.join("\n"));
    let html = DOCUMENT.replace(STYLE_MARK, STYLE).replace(SCRIPT_MARK, &script);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        source(&script),
        source(STYLE),
    );
    let policy = HeaderValue::try_from(policy).expect("a policy is plain ASCII");
    Page { html: html.into(), policy }
}

/// How a policy names an inline script or style.
fn source(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html() -> &'static str {
        std::str::from_utf8(&page().html).unwrap()
    }

    /// What is between the only pair of such tags.
    fn inside(tag: &str) -> &'static str {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        assert_eq!((html().matches(&open).count(), html().matches(&close).count()), (1, 1));
        let (_, rest) = html().split_once(&open).unwrap();
        rest.split_once(&close).unwrap().0
    }

    #[test]
    fn all_parts_are_in_it() {
        assert_eq!(inside("style"), STYLE);
        for part in SCRIPTS {
            assert!(inside("script").contains(part));
        }
        assert!(!html().contains(STYLE_MARK) && !html().contains(SCRIPT_MARK));
    }

    #[test]
    fn the_policy_lets_it_run_and_nothing_else() {
        let policy = page().policy.to_str().unwrap();
        let directives: Vec<&str> = policy.split("; ").collect();
        assert_eq!(directives[0], "default-src 'none'");
        let script = format!("script-src '{}'", source(inside("script")));
        let style = format!("style-src '{}'", source(inside("style")));
        assert!(directives.contains(&script.as_str()) && directives.contains(&style.as_str()));
        assert!(directives.contains(&"connect-src 'self'"));
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    }

    #[test]
    fn a_digest_is_named_as_the_standard_says() {
        // The example of CSP level 2, §5.2, for alert('Hello, world.');
        assert_eq!(
            source("alert('Hello, world.');"),
            "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="
        );
    }

    #[test]
    fn it_names_no_other_server() {
        for scheme in ["://", "src=", "@import", "url(", "import("] {
            assert!(!html().contains(scheme), "{scheme}");
        }
    }

    #[test]
    fn it_has_no_code_outside_of_its_script() {
        for attribute in [" onclick", " onload", " style=", "javascript:", "innerHTML", "eval("] {
            assert!(!html().contains(attribute), "{attribute}");
        }
    }
}
