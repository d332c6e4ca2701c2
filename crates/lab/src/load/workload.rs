//! What the requests of a load are.

use bytes::{Bytes, BytesMut};
use clap::ValueEnum;
use seawall_control::Rng;
use seawall_kv::native;
use seawall_measure::{KeyValueMix, Operation, Paths};
use seawall_rpc::Request;

use super::web;
use crate::synthetic::{PATH_NAMES, PATHS, WORK};

/// The index of lookups among the classes of [`Workload::Kv`]; that of writes is 1.
const LOOKUP: usize = 0;
/// The index of lookups of large values, if the mix has them.
const LARGE_LOOKUP: usize = 2;

/// A kind of requests.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Requests that spend CPU time, as much as the server draws.
    Synthetic,
    /// The same, each with a data path that it names.
    Paths {
        /// How.
        by: NamedBy,
        /// Which paths, and how many requests take each.
        paths: Paths,
    },
    /// Requests without a payload of one method of any service.
    Method {
        /// The name of their class.
        name: &'static str,
        /// The method.
        method: u16,
    },
    /// Reads and writes of a key-value store.
    Kv(KeyValueMix),
    /// Requests that HTTP carries.
    Web(web::Requests),
    /// Lookups of small and of large values (Svalinn §5.1).
    #[cfg(feature = "rocks")]
    Rocks {
        /// How many keys there are.
        keys: seawall_rocks::data::Counts,
        /// How a request says which kind it is.
        by: NamedBy,
        /// Part of the requests that ask for large values, 0 to 1.
        large: f64,
    },
    /// Maxima of a column, and smoothing of it (Svalinn §5.1).
    #[cfg(feature = "columns")]
    Columns {
        /// Rows of which each maximum is.
        rows: u32,
        /// How a request says which kind it is.
        by: NamedBy,
        /// Part of the requests that smooth, 0 to 1.
        large: f64,
    },
    /// Searches for one word each, as likely as it is frequent (Protego §5.2).
    #[cfg(feature = "search")]
    Search(std::sync::Arc<seawall_search::words::Words>),
}

/// How a request names its data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NamedBy {
    /// Each path has its own method, so that the server knows it before it runs the request
    Method,
    /// By its data: to a server that does not look into it, all requests are the same
    Data,
}

impl Workload {
    /// Names of the classes that are measured apart.
    pub fn classes(&self) -> Vec<&str> {
        match self {
            Self::Web(requests) => requests.names().collect(),
            Self::Method { name, .. } => vec![name],
            _ => self.fixed_classes().to_vec(),
        }
    }

    /// Names of classes that are the same in every run.
    fn fixed_classes(&self) -> &'static [&'static str] {
        match self {
            Self::Web(_) | Self::Method { .. } => &[],
            Self::Synthetic => &["work"],
            Self::Paths { paths, .. } => &PATH_NAMES[..paths.count()],
            Self::Kv(mix) if mix.has_large() => &["get", "set", "get_large"],
            Self::Kv(_) => &["get", "set"],
            #[cfg(feature = "rocks")]
            Self::Rocks { .. } => &["small", "large"],
            #[cfg(feature = "columns")]
            Self::Columns { .. } => &["max", "smooth"],
            #[cfg(feature = "search")]
            Self::Search(_) => &["search"],
        }
    }

    /// The next request, and the index of its class.
    ///
    /// # Panics
    ///
    /// If HTTP carries it, and not the native protocol.
    pub(super) fn next(&self, rng: &mut Rng) -> (usize, Request) {
        match self {
            Self::Web(_) => unreachable!("the generator asks a web workload itself"),
            Self::Synthetic => (0, Request::new(WORK, Bytes::new())),
            Self::Method { method, .. } => (0, Request::new(*method, Bytes::new())),
            Self::Paths { by, paths } => {
                let path = paths.of(rng.uniform());
                let request = match by {
                    NamedBy::Method => Request::new(PATHS[path], Bytes::new()),
                    NamedBy::Data => Request::new(WORK, Bytes::from_static(&[[0], [1], [2]][path])),
                };
                (path, request)
            }
            Self::Kv(mix) => match mix.sample(rng) {
                Operation::Get { key } if mix.is_large(key) => (LARGE_LOOKUP, get(key)),
                Operation::Get { key } => (LOOKUP, get(key)),
                Operation::Set { key, value_len } => (1, set(key, value_len)),
            },
            #[cfg(feature = "rocks")]
            Self::Rocks { keys, by, large } => {
                let large = rng.chance(*large);
                (usize::from(large), lookup(*keys, *by, large, rng))
            }
            #[cfg(feature = "columns")]
            Self::Columns { rows, by, large } => {
                let large = rng.chance(*large);
                (usize::from(large), compute(*rows, *by, large, rng))
            }
            #[cfg(feature = "search")]
            Self::Search(words) => (0, search(words.sample(rng))),
        }
    }
}

/// Lookups that were answered, and those of them that found something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lookups {
    hits: u64,
    all: u64,
}

impl Lookups {
    /// A request of this class was answered with `reply`; it may be no lookup.
    pub(super) fn answered(&mut self, workload: &Workload, class: usize, reply: &Bytes) {
        let hit = match workload {
            Workload::Kv(_) if [LOOKUP, LARGE_LOOKUP].contains(&class) => {
                let reply = native::Reply::decode(reply.clone());
                matches!(reply, Ok(native::Reply::Hit { .. }))
            }
            #[cfg(feature = "rocks")]
            Workload::Rocks { .. } => {
                matches!(seawall_rocks::native::decode_reply(reply.clone()), Ok(Some(_)))
            }
            _ => return,
        };
        self.hits += u64::from(hit);
        self.all += 1;
    }

    /// Adds what another thread has seen.
    pub(super) fn merge(&mut self, other: Self) {
        self.hits += other.hits;
        self.all += other.all;
    }

    /// The share of hits, 0 to 1; `None` without any lookup.
    pub(super) fn hit_share(&self) -> Option<f64> {
        (self.all > 0).then(|| self.hits as f64 / self.all as f64)
    }
}

/// A request that reads a key.
pub fn get(key: u64) -> Request {
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

/// A lookup of a value of either kind, all of a kind alike.
#[cfg(feature = "rocks")]
fn lookup(keys: seawall_rocks::data::Counts, by: NamedBy, large: bool, rng: &mut Rng) -> Request {
    use seawall_rocks::{data, native};
    let (method, key) = if large {
        (native::GET_LARGE, data::large_key(rng.below(keys.large)))
    } else {
        (native::GET_SMALL, data::small_key(rng.below(keys.small)))
    };
    Request::new(if by == NamedBy::Data { native::GET } else { method }, key)
}

/// A computation of either kind.
#[cfg(feature = "columns")]
fn compute(rows: u32, by: NamedBy, large: bool, rng: &mut Rng) -> Request {
    use seawall_columns::{native, series};
    let request = match large {
        // As in the experiment (Svalinn's authors' client).
        true => native::Request::Smooth { span: 5 },
        false => {
            // In a series of the usual length these rows are all there.
            let places = series::ROWS.saturating_sub(rows as usize) + 1;
            native::Request::Max { first: rng.below(places as u64) as u32, rows }
        }
    };
    let method = if by == NamedBy::Data { native::COMPUTE } else { request.method() };
    Request::new(method, request.encode())
}

/// A search for the best ten documents, as one page of results shows them.
#[cfg(feature = "search")]
fn search(word: &str) -> Request {
    use seawall_search::native;
    Request::new(native::SEARCH, native::encode_request(word, 10))
}

fn key_name(key: u64) -> Bytes {
    Bytes::from(format!("key-{key}"))
}

fn encoded(method: u16, request: &native::Request) -> Request {
    let mut payload = BytesMut::new();
    request.encode(&mut payload);
    Request::new(method, payload.freeze())
}
