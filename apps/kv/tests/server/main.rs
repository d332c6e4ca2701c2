//! The server over real connections, native ones and memcached's.

mod limits;
mod locks;
mod memcached;
mod native;
mod overload;
mod support;
