//! Load for servers of HTTP/1.1 and gRPC, offered on schedule and counted like any other.
//!
//! ```text
//!  schedule ─► request of a class ─► a connection ─► answer ─► books
//!                                     │ HTTP/1.1: one request at a time on each of so many;
//!                                     │           who finds none free waits, which counts
//!                                     │ gRPC:     HTTP/2, any number on each of so many
//! ```
//!
//! A request that is not answered by its deadline is given up as real clients do it: HTTP/1.1
//! closes the connection, HTTP/2 resets the stream.

#[cfg(not(feature = "http"))]
mod absent;
#[cfg(feature = "http")]
mod answer;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod connections;
#[cfg(all(test, feature = "http"))]
mod live;
mod requests;

#[cfg(not(feature = "http"))]
pub use absent::Client;
#[cfg(feature = "http")]
pub use client::Client;
pub use requests::Requests;

use clap::ValueEnum;
use seawall_measure::{DropReason, Outcome};

/// What is called, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// What the server speaks.
    pub protocol: Protocol,
    /// As the `Host` field and `:authority` have it.
    pub host: String,
    /// Codes that count as refusals; those of the protocol if none is named.
    pub refusals: Vec<u16>,
}

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// HTTP/1.1
    Http,
    /// Unary gRPC over HTTP/2 without TLS
    Grpc,
}

impl Protocol {
    /// The protocol of a URL's scheme, and what follows it.
    pub fn of_url(url: &str) -> Option<(Self, &str)> {
        let http = url.strip_prefix("http://").map(|rest| (Self::Http, rest));
        http.or_else(|| url.strip_prefix("grpc://").map(|rest| (Self::Grpc, rest)))
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP/1.1",
            Self::Grpc => "gRPC",
        }
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was served.
    Served,
    /// The server refused it.
    Refused,
    /// There was no free connection before its deadline, so that it was never sent.
    Unsent,
    /// It was sent, and then given up by who sent it or by the server, because of its deadline.
    GivenUp,
    /// Anything else, in words.
    Failed(String),
}

impl Answer {
    /// As the books have it.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Served => Outcome::Success,
            Self::Refused => Outcome::Rejected,
            Self::Unsent => Outcome::DroppedAtClient(DropReason::Expired),
            Self::GivenUp => Outcome::Cancelled,
            Self::Failed(_) => Outcome::Failed,
        }
    }

    /// What went wrong, where no overload brings that about.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Failed(words) => Some(words.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_tells_the_protocol() {
        let http = Some((Protocol::Http, "localhost:80/a"));
        assert_eq!(Protocol::of_url("http://localhost:80/a"), http);
        let grpc = Some((Protocol::Grpc, "[::1]:1"));
        assert_eq!(Protocol::of_url("grpc://[::1]:1"), grpc);
        assert_eq!(Protocol::of_url("localhost:80"), None);
    }
}
