use seawall_kv::{Store, UnixTime, native};
use seawall_rpc::*;
use std::net::SocketAddr;
use std::sync::Arc;
#[derive(Default)]
pub(super) struct KvConfig {
    pub store: seawall_kv::Config,
    pub server: ServerConfig,
    pub memcached: Option<SocketAddr>,
}
pub(super) struct KvServer(Server);
impl KvServer {
    pub fn start(c: KvConfig) -> anyhow::Result<Self> {
        let store = Arc::new(Store::new(&c.store)?);
        let mut router = Router::new();
        for m in [native::GET, native::SET, native::DELETE] {
            let store = store.clone();
            router = router.method(m, "kv", move |_c: Context, p: bytes::Bytes| {
                let store = store.clone();
                async move {
                    let r = native::Request::decode(m, p)
                        .map_err(|e| Status::error(3, e.to_string()))?;
                    let mut out = bytes::BytesMut::new();
                    native::execute(&store, UnixTime::from_secs(1_700_000_000), &r)
                        .encode(&mut out);
                    Ok(out.freeze())
                }
            });
        }
        Ok(Self(Server::start(c.server, router)?))
    }
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
    pub fn memcached_address(&self) -> Option<SocketAddr> {
        None
    }
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }
    pub fn shutdown(self, g: std::time::Duration) {
        self.0.shutdown(g)
    }
}
