//! The native methods, for the router.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use seawall_control::request::Class;
use seawall_rpc::{Router, Status};

use super::clock::unix_time;
use crate::native::{self, Request};
use crate::store::Store;

/// Lookups are measured apart from writes, which also take the slab lock.
const READ: Class = Class(0);
const WRITE: Class = Class(1);

/// Routes the methods of [`native`] to `store`.
pub(super) fn router(store: &Arc<Store>) -> Router {
    [(native::GET, "get", READ), (native::SET, "set", WRITE), (native::DELETE, "delete", WRITE)]
        .into_iter()
        .fold(Router::new(), |router, (method, name, class)| {
            let store = store.clone();
            router.method_in_class(method, name, class, move |_, payload| {
                let store = store.clone();
                async move { serve(&store, method, payload) }
            })
        })
}

fn serve(store: &Store, method: u16, payload: Bytes) -> Result<Bytes, Status> {
    let request = Request::decode(method, payload)
        .map_err(|error| Status::error(Status::INVALID, error.to_string()))?;
    let done = native::execute(store, unix_time(), &request)
        .map_err(|error| Status::error(Status::RESOURCE_EXHAUSTED, error.to_string()))?;
    let mut reply = BytesMut::new();
    done.encode(&mut reply);
    Ok(reply.freeze())
}
