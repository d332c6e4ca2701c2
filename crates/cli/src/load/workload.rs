//! What the requests of a load are.

use bytes::{Bytes, BytesMut};
use seawall_control::Rng;
use seawall_kv::native;
use seawall_measure::{KeyValueMix, Operation};
use seawall_rpc::Request;

use crate::serve::WORK;

/// A kind of requests.
#[derive(Clone, Debug)]
pub(crate) enum Workload {
    /// Requests that spend CPU time, as much as the server draws.
    Synthetic,
    /// Reads and writes of a key-value store.
    Kv(KeyValueMix),
}

impl Workload {
    /// Names of the classes that are measured apart.
    pub(crate) fn classes(&self) -> &'static [&'static str] {
        match self {
            Self::Synthetic => &["work"],
            Self::Kv(_) => &["get", "set"],
        }
    }

    /// The next request, and the index of its class.
    pub(super) fn next(&self, rng: &mut Rng) -> (usize, Request) {
        match self {
            Self::Synthetic => (0, Request::new(WORK, Bytes::new())),
            Self::Kv(mix) => match mix.sample(rng) {
                Operation::Get { key } => (0, get(key)),
                Operation::Set { key, value_len } => (1, set(key, value_len)),
            },
        }
    }
}

/// A request that reads a key.
pub(crate) fn get(key: u64) -> Request {
    let request = native::Request::Get { key: key_name(key) };
    encoded(native::GET, &request)
}

/// A request that writes `value_len` bytes.
pub(super) fn set(key: u64, value_len: u32) -> Request {
    let value = Bytes::from(vec![b'v'; value_len as usize]);
    let request = native::Request::Set {
        key: key_name(key),
        value,
        flags: 0,
        exptime: seawall_kv::Exptime::NEVER,
    };
    encoded(native::SET, &request)
}

fn key_name(key: u64) -> Bytes {
    Bytes::from(format!("key-{key}"))
}

fn encoded(method: u16, request: &native::Request) -> Request {
    let mut payload = BytesMut::new();
    request.encode(&mut payload);
    Request::new(method, payload.freeze())
}
