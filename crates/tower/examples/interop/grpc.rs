//! The service of gRPC's interoperability tests, whose unary calls take a place. What is to be done
//! stands in `doc/interop-test-descriptions.md` of gRPC's repository.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use futures_util::TryStreamExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use seawall_tower::Context;
use tokio_stream::{Stream, StreamExt};
use tonic::codegen::BoxFuture;
use tonic::server::Grpc;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;
use tower_service::Service;

use super::Places;
use super::messages::{
    EchoStatus, Empty, Payload, SimpleRequest, SimpleResponse, StreamingInputCallRequest,
    StreamingInputCallResponse, StreamingOutputCallRequest, StreamingOutputCallResponse,
};

/// What clients say to have it said again, at the beginning or at the end.
const ECHO_HEADER: HeaderName = HeaderName::from_static("x-grpc-test-echo-initial");
const ECHO_TRAILER: HeaderName = HeaderName::from_static("x-grpc-test-echo-trailing-bin");

/// What clients that retry say, and what they are told of it.
const ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");
const ATTEMPTS_SEEN: HeaderName = HeaderName::from_static("x-previous-attempts");

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Tests(Arc<Places>);

impl Tests {
    pub(crate) fn new(places: Arc<Places>) -> Self {
        Self(places)
    }

    async fn unary(
        self,
        request: tonic::Request<SimpleRequest>,
    ) -> Result<tonic::Response<SimpleResponse>, Status> {
        let context = request.extensions().get::<Context>().cloned();
        let context = context.ok_or_else(|| Status::internal("there is no layer"))?;
        self.0.work(&context).await?;
        let SimpleRequest { response_size, response_status } = request.into_inner();
        asked_for(response_status)?;
        let payload = Payload::zeros(response_size);
        Ok(tonic::Response::new(SimpleResponse { payload }))
    }

    async fn input(
        request: tonic::Request<Streaming<StreamingInputCallRequest>>,
    ) -> Result<tonic::Response<StreamingInputCallResponse>, Status> {
        let mut requests = request.into_inner();
        let mut size = 0;
        while let Some(request) = requests.message().await? {
            size += request.payload.map_or(0, |payload| payload.body.len());
        }
        let aggregated_payload_size = size as i32;
        Ok(tonic::Response::new(StreamingInputCallResponse { aggregated_payload_size }))
    }
}

/// The failure that a client asks for, if it does.
fn asked_for(status: Option<EchoStatus>) -> Result<(), Status> {
    match status {
        Some(EchoStatus { code, message }) if code != 0 => {
            Err(Status::new(Code::from_i32(code), message))
        }
        _ => Ok(()),
    }
}

/// The responses that a request asks for, after the pauses that it asks for.
fn responses(
    request: StreamingOutputCallRequest,
) -> Result<impl Stream<Item = Result<StreamingOutputCallResponse, Status>>, Status> {
    asked_for(request.response_status)?;
    Ok(tokio_stream::iter(request.response_parameters).then(async |asked| {
        let pause = u64::try_from(asked.interval_us).unwrap_or(0);
        tokio::time::sleep(Duration::from_micros(pause)).await;
        Ok(StreamingOutputCallResponse { payload: Payload::zeros(asked.size) })
    }))
}

impl Service<Request> for Tests {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let tests = self.clone();
        let echo = Echo::of(request.headers());
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            let response = match method.as_str() {
                "EmptyCall" => {
                    let call = service_fn(|_: tonic::Request<Empty>| empty());
                    Grpc::new(ProstCodec::default()).unary(call, request).await
                }
                "UnaryCall" => {
                    let call = service_fn(|request| tests.clone().unary(request));
                    Grpc::new(ProstCodec::default()).unary(call, request).await
                }
                "StreamingInputCall" => {
                    let call = service_fn(Tests::input);
                    Grpc::new(ProstCodec::default()).client_streaming(call, request).await
                }
                "StreamingOutputCall" => {
                    let call = service_fn(async |request: tonic::Request<_>| {
                        responses(request.into_inner()).map(tonic::Response::new)
                    });
                    Grpc::new(ProstCodec::default()).server_streaming(call, request).await
                }
                "FullDuplexCall" => {
                    let call = service_fn(async |request: tonic::Request<Streaming<_>>| {
                        let requests = request.into_inner();
                        let each = requests.and_then(|request| ready(responses(request)));
                        Ok(tonic::Response::new(each.try_flatten()))
                    });
                    Grpc::new(ProstCodec::default()).streaming(call, request).await
                }
                _ => Status::unimplemented("there is no such method").into_http(),
            };
            Ok(echo.onto(response))
        })
    }
}

fn empty() -> Ready<Result<tonic::Response<Empty>, Status>> {
    ready(Ok(tonic::Response::new(Empty {})))
}

/// What a request wants to read again.
struct Echo {
    header: Option<HeaderValue>,
    trailer: Option<HeaderValue>,
    attempts: Option<HeaderValue>,
}

impl Echo {
    fn of(headers: &HeaderMap) -> Self {
        Self {
            header: headers.get(ECHO_HEADER).cloned(),
            trailer: headers.get(ECHO_TRAILER).cloned(),
            attempts: headers.get(ATTEMPTS).cloned(),
        }
    }

    fn onto(self, mut response: http::Response<tonic::body::Body>) -> Response {
        let headers = response.headers_mut();
        let both = [(ECHO_HEADER, self.header), (ATTEMPTS_SEEN, self.attempts)];
        headers.extend(both.into_iter().filter_map(|(name, value)| Some((name, value?))));
        response.map(|body| {
            axum::body::Body::new(body.map_frame(move |mut frame| {
                if let (Some(trailers), Some(value)) = (frame.trailers_mut(), &self.trailer) {
                    trailers.insert(ECHO_TRAILER, value.clone());
                }
                frame
            }))
        })
    }
}
