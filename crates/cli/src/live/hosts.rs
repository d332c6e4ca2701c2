//! Whom the listener answers: a defence against DNS rebinding.
//!
//! A page of any website can have its own name resolved to 127.0.0.1 and then read what is served
//! there as if it were its own. Its requests still carry that name, so a listener that answers to
//! no foreign name gives nothing away. An address in digits is no name that anybody could rebind.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Result, bail};

/// The names under which the listener may be asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    allowed: BTreeSet<String>,
    everybody: bool,
}

impl Hosts {
    /// Beside loopback names and addresses in digits, these names; `*` stands for all.
    ///
    /// # Errors
    ///
    /// Names what is not a host name.
    pub(crate) fn new(names: &[String]) -> Result<Self> {
        let mut hosts = Self::default();
        for name in names {
            match normal(name) {
                "*" => hosts.everybody = true,
                host if is_name(host) => _ = hosts.allowed.insert(host.to_ascii_lowercase()),
                _ => bail!(
                    "{name} is no host to allow; write a name without scheme and port, such as \
                     metrics.internal, or * for all"
                ),
            }
        }
        Ok(hosts)
    }

    /// Whether who asks `host`, without its port, is answered.
    pub(super) fn allow(&self, host: &str) -> bool {
        let host = normal(host).to_ascii_lowercase();
        let digits = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        // RFC 6761 §6.3: names below `localhost` are loopback names, too.
        self.everybody
            || host == "localhost"
            || host.ends_with(".localhost")
            || digits.unwrap_or(&host).parse::<IpAddr>().is_ok()
            || self.allowed.contains(&host)
    }
}

/// Without the dot of the root.
fn normal(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Result<Hosts> {
        Hosts::new(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn loopback_names_and_digits_are_answered() {
        let hosts = Hosts::default();
        for host in [
            "localhost",
            "LocalHost",
            "localhost.",
            "page.localhost",
            "127.0.0.1",
            "[::1]",
            "10.0.0.7",
        ] {
            assert!(hosts.allow(host), "{host}");
        }
    }

    #[test]
    fn foreign_names_are_not() {
        let hosts = Hosts::default();
        for host in [
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "notlocalhost",
            "",
            ".",
        ] {
            assert!(!hosts.allow(host), "{host}");
        }
    }

    #[test]
    fn names_can_be_allowed() {
        let some = hosts(&["Metrics.internal", "seawall_1"]).unwrap();
        assert!(some.allow("metrics.INTERNAL.") && some.allow("seawall_1"));
        assert!(!some.allow("internal") && !some.allow("a.metrics.internal"));
        assert!(hosts(&["*"]).unwrap().allow("example.org"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for wrong in ["http://a", "a:80", "", "a..b", "*.a", "a b"] {
            let error = hosts(&["a", wrong]).unwrap_err().to_string();
            assert!(error.contains("without scheme and port"), "{wrong}: {error}");
        }
    }
}
