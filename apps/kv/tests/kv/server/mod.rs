//! The server over real connections, native ones and memcached's.

mod cluster;
mod limits;
mod locks;
mod memcached;
mod native;
mod overload;
mod support;
