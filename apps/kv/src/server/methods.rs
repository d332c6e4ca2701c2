//! The native methods, for the router.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use seawall_control::request::{Class, Context};
use seawall_measure::memory::Declared;
use seawall_rpc::{Router, Status};

use super::LargeValues;
use super::clock::unix_time;
use super::cluster::{Membership, RING_LOCK};
use crate::native::{self, HIT_HEAD, Reply, Request};
use crate::store::{ITEM_LOCK, SLAB_LOCK, Store, StoreError};

/// Lookups are measured apart from writes, which also take the slab lock.
const READ: Class = Class(0);
const WRITE: Class = Class(1);

/// Routes the methods of [`native`] to `store`.
pub(super) fn router(store: &Arc<Store>, large: &LargeValues, membership: &Membership) -> Router {
    let router = Router::new().class(READ, "read").class(WRITE, "write");
    let router = router.stage(ITEM_LOCK, "item_lock").stage(SLAB_LOCK, "slab_lock");
    let router = router.stage(RING_LOCK, "ring");
    [(native::GET, "get", READ), (native::SET, "set", WRITE), (native::DELETE, "delete", WRITE)]
        .into_iter()
        .fold(router, |router, (method, name, class)| {
            let served = Served {
                store: store.clone(),
                large: large.clone(),
                membership: membership.clone(),
            };
            router.method_in_class(method, name, class, move |ctx, payload| {
                let served = served.clone();
                async move { served.serve(&ctx, method, payload).await }
            })
        })
}

/// What requests need.
#[derive(Clone)]
struct Served {
    store: Arc<Store>,
    large: LargeValues,
    membership: Membership,
}

impl Served {
    async fn serve(&self, ctx: &Context, method: u16, payload: Bytes) -> Result<Bytes, Status> {
        let Self { store, large, membership } = self;
        let request = Request::decode(method, payload)
            .map_err(|error| Status::error(Status::INVALID, error.to_string()))?;
        if !membership.has(ctx, request.key()).await? {
            return Err(Status::error(Status::INVALID, "this node does not have the key"));
        }
        let now = unix_time();
        let _permit = large.enter(store, ctx, now, &request).await?;
        let done = native::execute(store, ctx, now, &request).map_err(|error| match error {
            StoreError::Rejected(rejected) => rejected.into(),
            error => Status::error(Status::RESOURCE_EXHAUSTED, error.to_string()),
        })?;
        let mut reply = BytesMut::new();
        done.encode(&mut reply);
        if let Reply::Hit { value, .. } = &done
            && value.len() >= large.bytes as usize
        {
            // Read and written on the way out of the store; after that it is in the caches.
            Declared::shared().add(2 * value.len() as u64);
            if !large.send {
                reply.truncate(HIT_HEAD);
            }
        }
        Ok(reply.freeze())
    }
}
