//! One client of a server: makes a call, gives it up when its time is over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, TE};
use hyper::{Method, Request, Response, Version};

use super::connections::{Lane, Lost, Pool};
use super::{Answer, Protocol, Target, answer};

/// Largest reply that is read: no service under test has larger ones.
const REPLY_MAX: usize = 16 << 20;

/// Longest time that gRPC can write (eight digits): of microseconds, 99 seconds.
const GRPC_TIMEOUT_MAX_US: u128 = 99_999_999;

/// A client of one server. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    target: Target,
    host: HeaderValue,
    refusals: Vec<u16>,
    pool: Pool,
}

impl Client {
    /// A client with at most so many connections.
    ///
    /// # Errors
    ///
    /// If nobody listens there.
    pub async fn open(address: SocketAddr, target: &Target, connections: usize) -> Result<Self> {
        let pool = Pool::open(address, target.protocol, connections).await?;
        let host = HeaderValue::from_str(&target.host).context("the server's name is no host")?;
        let refusals = match &target.refusals[..] {
            [] => answer::refusals(target.protocol),
            named => named.to_vec(),
        };
        Ok(Self(Arc::new(Inner { target: target.clone(), host, refusals, pool })))
    }

    /// Sends a request, on the connection with this number if the protocol shares connections, and
    /// waits for its answer, but not longer than `left`.
    pub async fn call(
        &self,
        lane: usize,
        path: String,
        body: Bytes,
        left: Option<Duration>,
    ) -> Answer {
        let Some(left) = left else { return self.call_in_time(lane, &path, body, None).await };
        let begin = tokio::time::Instant::now();
        let end = begin + left;
        let Ok(connection) = tokio::time::timeout_at(end, self.0.pool.take(lane)).await else {
            return Answer::Unsent;
        };
        let left = left.saturating_sub(begin.elapsed());
        let exchange = self.exchange(connection, &path, body, Some(left));
        tokio::time::timeout_at(end, exchange).await.unwrap_or(Answer::GivenUp)
    }

    async fn call_in_time(
        &self,
        lane: usize,
        path: &str,
        body: Bytes,
        left: Option<Duration>,
    ) -> Answer {
        let connection = self.0.pool.take(lane).await;
        self.exchange(connection, path, body, left).await
    }

    async fn exchange(
        &self,
        connection: Result<Lane<'_>, Lost>,
        path: &str,
        body: Bytes,
        left: Option<Duration>,
    ) -> Answer {
        let Inner { target, refusals, .. } = &*self.0;
        let request = match self.request(path, body, left) {
            Ok(request) => request,
            Err(error) => return Answer::Failed(format!("no request can be made of it: {error}")),
        };
        let exchanged = async {
            let mut connection = connection?;
            let response = connection.send(request).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, REPLY_MAX).collect().await;
            let body = body.map_err(|error| Lost(error.to_string()))?;
            connection.keep();
            Ok::<_, Lost>(Response::from_parts(head, body))
        };
        let response = match exchanged.await {
            Ok(response) => response,
            Err(Lost(words)) => return Answer::Failed(words),
        };
        match target.protocol {
            Protocol::Http => answer::of_http(response.status(), refusals),
            Protocol::Grpc => {
                let trailers = response.body().trailers();
                answer::of_grpc(response.status(), response.headers(), trailers, refusals)
            }
        }
    }

    /// The request with what servers are told of its deadline: `grpc-timeout`, or, of HTTP, the
    /// field of Envoy's that others read, too, and Seawall's own, which is finer.
    fn request(
        &self,
        path: &str,
        body: Bytes,
        left: Option<Duration>,
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let Inner { target, host, .. } = &*self.0;
        let method = match target.protocol {
            Protocol::Http if body.is_empty() => Method::GET,
            _ => Method::POST,
        };
        let request = Request::builder().method(method);
        match target.protocol {
            Protocol::Http => {
                let mut request = request.uri(path).header(HOST, host);
                if let Some(left) = left {
                    let ms = left.as_millis().max(1).to_string();
                    request = request
                        .header("x-envoy-expected-rq-timeout-ms", ms)
                        .header("seawall", format!("deadline={}", left.as_micros()));
                }
                request.body(Full::new(body))
            }
            Protocol::Grpc => {
                let mut request = request
                    .version(Version::HTTP_2)
                    .uri(format!("http://{}{path}", target.host))
                    .header(CONTENT_TYPE, "application/grpc")
                    .header(TE, "trailers");
                if let Some(left) = left {
                    let us = left.as_micros().min(GRPC_TIMEOUT_MAX_US);
                    request = request.header("grpc-timeout", format!("{us}u"));
                }
                request.body(Full::new(message(&body)))
            }
        }
    }
}

/// A message of gRPC that is a `google.protobuf.BytesValue`, behind its prefix of five bytes.
fn message(value: &[u8]) -> Bytes {
    // Field 1, of the kind that has a length; not there if it is empty.
    const FIELD: u8 = 1 << 3 | 2;
    let mut fields = BytesMut::new();
    if !value.is_empty() {
        fields.put_u8(FIELD);
        let mut len = value.len();
        while len >= 0x80 {
            fields.put_u8(len as u8 | 0x80);
            len >>= 7;
        }
        fields.put_u8(len as u8);
        fields.put_slice(value);
    }
    let mut message = BytesMut::with_capacity(5 + fields.len());
    message.put_u8(0); // not compressed
    message.put_u32(fields.len() as u32);
    message.put(fields);
    message.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_prefix_and_its_length() {
        assert_eq!(message(b"")[..], [0, 0, 0, 0, 0]);
        assert_eq!(message(b"hi")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'h', b'i']);
        let long = message(&[7; 300]);
        assert_eq!(long[..8], [0, 0, 0, 1, 47, 0x0a, 0xac, 2]);
        assert_eq!(long.len(), 5 + 3 + 300);
    }
}
