//! The client in front of hyper's and tonic's, and of servers that only know the header.

mod grpc;
mod hyper_client;
mod servers;
