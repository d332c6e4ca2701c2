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

mod answer;
mod client;
mod connections;
#[cfg(test)]
mod live;
mod requests;

pub(crate) use answer::Answer;
pub(crate) use client::{Client, Target};
pub(crate) use requests::Requests;

use clap::ValueEnum;

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1
    Http,
    /// Unary gRPC over HTTP/2 without TLS
    Grpc,
}

impl Protocol {
    /// The protocol of a URL's scheme, and what follows it.
    pub(crate) fn of_url(url: &str) -> Option<(Self, &str)> {
        let http = url.strip_prefix("http://").map(|rest| (Self::Http, rest));
        http.or_else(|| url.strip_prefix("grpc://").map(|rest| (Self::Grpc, rest)))
    }

    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP/1.1",
            Self::Grpc => "gRPC",
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
