//! gRPC with tonic, as generated code would use it, but for the payload: it is bytes as they are,
//! without a message around them.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::client::Grpc as ClientGrpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc as ServerGrpc, NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower_service::Service;

use super::host::Host;
use crate::closed_loop::Caller;

const SERVICE: &str = "seawall.bench.Echo";
const METHOD: &str = "/seawall.bench.Echo/Echo";

/// Starts a server.
pub(super) fn serve() -> io::Result<Host> {
    Host::start(|listener| async {
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = Server::builder().add_service(Echo).serve_with_incoming(incoming);
        server.await.map_err(io::Error::other)
    })
}

/// The service: one method, whatever the path says.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = SERVICE;
}

impl<B> Service<http::Request<B>> for Echo
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Box::pin(async { Ok(ServerGrpc::new(BytesCodec).unary(EchoMethod, request).await) })
    }
}

struct EchoMethod;

impl UnaryService<Bytes> for EchoMethod {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// A channel.
#[derive(Clone)]
pub(super) struct Client {
    grpc: ClientGrpc<Channel>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        Ok(Self { grpc: ClientGrpc::new(endpoint.connect().await?) })
    }
}

impl Caller for Client {
    async fn call(&mut self, payload: Bytes) -> Result<Bytes> {
        self.grpc.ready().await?;
        let path = PathAndQuery::from_static(METHOD);
        let reply = self.grpc.unary(Request::new(payload), path, BytesCodec).await?;
        Ok(reply.into_inner())
    }
}

/// Messages that are their own encoding.
#[derive(Clone, Copy)]
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, payload: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(payload);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, input: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(input.copy_to_bytes(input.remaining())))
    }
}
