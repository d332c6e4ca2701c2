//! Large values, to copy which takes memory bandwidth.

use seawall_control::config::ConfigError;
use seawall_control::request::{Context, Rejected};
use seawall_sync::memory::MemoryPermit;
use seawall_sync::{MemoryPolicy, MemorySemaphore};
use serde::{Deserialize, Serialize};

use crate::native::Request;
use crate::store::Store;
use crate::time::UnixTime;

/// What the native protocol does about large values.
///
/// A value is copied out of the store and into a reply. Some cores that copy large ones use up all
/// memory bandwidth, and more of them copy no more, but keep from their work those requests that
/// need none (Svalinn, §2 and §5.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LargeValues {
    /// What a lookup does that is about to copy a large value. Default: `none`; any of
    /// [`MemoryPolicy`]. Otherwise each lookup first asks how long its value is, which takes the
    /// item lock once more.
    pub semaphore: MemoryPolicy,
    /// From how many bytes on a value is large. Default: 65536. Range: 1 to 2^30.
    ///
    /// What is smaller stays in the caches of the core that copies it.
    pub bytes: u32,
    /// Whether replies have them. Default: true.
    ///
    /// With `false` each is copied into its reply all the same, and left away when that is sent:
    /// so the network between client and server is no bottleneck, as in Svalinn's experiment.
    pub send: bool,
}

impl Default for LargeValues {
    fn default() -> Self {
        Self { semaphore: MemoryPolicy::default(), bytes: 64 << 10, send: true }
    }
}

impl LargeValues {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the first field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("large.bytes", self.bytes, 1..=1 << 30)
    }

    /// Enters the memory-heavy part of `request`, if it has one.
    ///
    /// # Errors
    ///
    /// There is no room, and the request may not or cannot wait for it.
    pub(super) async fn enter(
        &self,
        store: &Store,
        ctx: &Context,
        now: UnixTime,
        request: &Request,
    ) -> Result<Option<MemoryPermit<'static>>, Rejected> {
        match request {
            Request::Get { key } if self.semaphore != MemoryPolicy::None => {
                match store.value_len(ctx, now, key)? {
                    Some(length) if length >= self.bytes as usize => {
                        MemorySemaphore::shared().enter(self.semaphore, ctx).await
                    }
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }
}
