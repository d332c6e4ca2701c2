//! The proxy between real clients and real upstreams, over sockets.

mod admission;
mod connecting;
mod credits;
mod documents;
mod forwarding;
mod grpc;
mod hostile;
mod lifecycle;
mod pauses;
mod replicas;
mod support;
mod switching;
mod tls;
