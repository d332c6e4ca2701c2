//! A service of gRPC by tonic: `cargo run -p seawall-tower --example tonic --features tonic`.
//!
//! What a `.proto` file and `tonic-prost-build` would make is written out at the end, so that no
//! compiler of protocol buffers is needed.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use seawall_control::request::Stage;
use seawall_sync::Mutex;
use seawall_tower::Context;
use seawall_tower::server::{Config, Layer, Listener, Refused};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// What refusals and metrics call the lock by.
pub(crate) const TOTAL: Stage = Stage(Stage::FIRST_OWN);

/// A number, in both directions.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Number {
    /// The number.
    #[prost(uint32, tag = "1")]
    pub(crate) value: u32,
}

/// What streams are made of.
pub(crate) type Numbers = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;

/// Adds numbers up, under a lock.
#[derive(Debug)]
pub(crate) struct Adder {
    total: Mutex<u32>,
}

impl Adder {
    /// It begins with zero.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { total: Mutex::new(0).at(TOTAL, "lock:total") })
    }

    /// The lock, which tests hold to be in the way.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) fn total(&self) -> &Mutex<u32> {
        &self.total
    }

    /// What stages ask a request for.
    fn context<T>(request: &Request<T>) -> Result<Context, Status> {
        let context = request.extensions().get::<Context>().cloned();
        context.ok_or_else(|| Status::internal("there is no layer"))
    }

    async fn plus(&self, context: &Context, value: u32) -> Result<Number, Status> {
        let mut total = self.total.lock(context).await.map_err(Refused)?;
        *total += value;
        Ok(Number { value: *total })
    }

    async fn add(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        let context = Self::context(&request)?;
        Ok(Response::new(self.plus(&context, request.into_inner().value).await?))
    }

    async fn add_all(
        &self,
        request: Request<Streaming<Number>>,
    ) -> Result<Response<Number>, Status> {
        let context = Self::context(&request)?;
        let mut numbers = request.into_inner();
        let mut total = Number::default();
        while let Some(number) = numbers.message().await? {
            total = self.plus(&context, number.value).await?;
        }
        Ok(Response::new(total))
    }

    /// Counts down, one number in a while, until its client goes away or zero is reached.
    fn count_down(request: Request<Number>) -> Response<Numbers> {
        let from = request.into_inner().value;
        let numbers = tokio_stream::iter((0..from).rev()).map(|value| Ok(Number { value }));
        Response::new(Box::pin(numbers.then(|number| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            number
        })))
    }

    fn add_each(
        self: Arc<Self>,
        request: Request<Streaming<Number>>,
    ) -> Result<Response<Numbers>, Status> {
        let context = Self::context(&request)?;
        let sums = request.into_inner().then(move |number| {
            let (adder, context) = (self.clone(), context.clone());
            async move { adder.plus(&context, number?.value).await }
        });
        Ok(Response::new(Box::pin(sums)))
    }
}

/// The layer in front of it.
pub(crate) fn layer(config: Config) -> Layer {
    let layer = Layer::builder(config).stage(TOTAL, "lock:total").build();
    layer.expect("the configuration can be used")
}

/// Serves, by sockets that know how long their bytes waited to be read.
pub(crate) async fn serve(
    listener: Listener,
    adder: Arc<Adder>,
    layer: Layer,
) -> Result<(), tonic::transport::Error> {
    let service = generated::AdderServer(adder);
    Server::builder().layer(layer).add_service(service).serve_with_incoming(listener).await
}

#[tokio::main]
#[allow(dead_code, reason = "tests start it themselves")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 50051))).await?;
    println!("{}", listener.local_addr()?);
    Ok(serve(listener, Adder::new(), layer(Config::default())).await?)
}

/// What stands in generated code.
mod generated {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use tonic::body::Body;
    use tonic::codegen::{BoxFuture, Service, http};
    use tonic::server::{
        ClientStreamingService, Grpc, NamedService, ServerStreamingService, StreamingService,
        UnaryService,
    };
    use tonic::{Request, Response, Status, Streaming};
    use tonic_prost::ProstCodec;

    use super::{Adder, Number, Numbers};

    #[derive(Clone)]
    pub(super) struct AdderServer(pub(super) Arc<Adder>);

    impl NamedService for AdderServer {
        const NAME: &'static str = "demo.Adder";
    }

    impl Service<http::Request<Body>> for AdderServer {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<Self::Response, Infallible>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            let method = self.clone();
            Box::pin(async move {
                let mut grpc = Grpc::new(ProstCodec::<Number, Number>::default());
                Ok(match request.uri().path() {
                    "/demo.Adder/Add" => grpc.unary(Unary(method.0), request).await,
                    "/demo.Adder/AddAll" => grpc.client_streaming(Client(method.0), request).await,
                    "/demo.Adder/CountDown" => grpc.server_streaming(Down, request).await,
                    "/demo.Adder/AddEach" => grpc.streaming(Both(method.0), request).await,
                    _ => Status::unimplemented("there is no such method").into_http(),
                })
            })
        }
    }

    struct Unary(Arc<Adder>);
    struct Client(Arc<Adder>);
    struct Down;
    struct Both(Arc<Adder>);

    impl UnaryService<Number> for Unary {
        type Response = Number;
        type Future = BoxFuture<Response<Number>, Status>;

        fn call(&mut self, request: Request<Number>) -> Self::Future {
            let adder = self.0.clone();
            Box::pin(async move { adder.add(request).await })
        }
    }

    impl ClientStreamingService<Number> for Client {
        type Response = Number;
        type Future = BoxFuture<Response<Number>, Status>;

        fn call(&mut self, request: Request<Streaming<Number>>) -> Self::Future {
            let adder = self.0.clone();
            Box::pin(async move { adder.add_all(request).await })
        }
    }

    impl ServerStreamingService<Number> for Down {
        type Response = Number;
        type ResponseStream = Numbers;
        type Future = BoxFuture<Response<Numbers>, Status>;

        fn call(&mut self, request: Request<Number>) -> Self::Future {
            Box::pin(async move { Ok(Adder::count_down(request)) })
        }
    }

    impl StreamingService<Number> for Both {
        type Response = Number;
        type ResponseStream = Numbers;
        type Future = BoxFuture<Response<Numbers>, Status>;

        fn call(&mut self, request: Request<Streaming<Number>>) -> Self::Future {
            let adder = self.0.clone();
            Box::pin(async move { adder.add_each(request) })
        }
    }
}
