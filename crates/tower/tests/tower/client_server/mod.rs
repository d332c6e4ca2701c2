//! Client and server of the crate together.

mod overload;
mod sockets;
