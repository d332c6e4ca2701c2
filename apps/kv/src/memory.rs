//! Who may use memory bandwidth: one semaphore for all of the process.
//!
//! Svalinn's `m_semaphore` (§3.4, §4): its callers enter before the memory-heavy part of a request
//! and leave after it.

use seawall_control::request::{Context, Rejected, Stage};
use seawall_sync::MemorySemaphore;
use seawall_sync::memory::MemoryPermit;
use serde::{Deserialize, Serialize};

/// The stage of the semaphore, in refusals.
pub const MEMORY: Stage = Stage::MEMORY;

/// What a request does that comes to the memory-heavy part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryPolicy {
    /// It goes on: there is no semaphore.
    #[default]
    None,
    /// It is refused if all permits are taken (`try_wait`, which Svalinn's evaluation uses).
    Try,
    /// It is refused if it cannot wait for as long as is predicted, else it waits
    /// (`wait_if_uncongested`).
    Wait,
}

impl MemoryPolicy {
    /// The names in configurations.
    pub const NAMES: [&str; 3] = ["none", "try", "wait"];

    /// Enters the memory-heavy part, and leaves it when what this returns is dropped.
    ///
    /// # Errors
    ///
    /// There is no room, and the request may not or cannot wait for it.
    pub async fn enter(self, ctx: &Context) -> Result<Option<MemoryPermit<'static>>, Rejected> {
        match self {
            Self::None => Ok(None),
            Self::Try if ctx.claims().droppable => {
                semaphore().try_wait().map(Some).ok_or_else(|| semaphore().refusal(ctx))
            }
            _ => semaphore().wait_if_uncongested(ctx).await.map(Some),
        }
    }
}

fn semaphore() -> &'static MemorySemaphore {
    MemorySemaphore::shared()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seawall_control::Instant;
    use seawall_control::request::Claims;

    use super::*;

    fn request(droppable: bool) -> Context {
        let budget = Some(Duration::ZERO);
        Context::new(Claims { droppable, budget, ..Claims::default() }, Instant::ORIGIN)
    }

    /// One test, since all of them would use the one semaphore.
    #[tokio::test]
    async fn who_finds_no_room_is_refused_where_it_is() {
        let all: Vec<_> = std::iter::from_fn(|| semaphore().try_wait()).collect();
        assert!(matches!(MemoryPolicy::None.enter(&request(true)).await, Ok(None)));
        for policy in [MemoryPolicy::Try, MemoryPolicy::Wait] {
            let refused = policy.enter(&request(true)).await.unwrap_err();
            assert_eq!(refused.stage, MEMORY);
        }
        let waits = tokio::spawn(async { MemoryPolicy::Try.enter(&request(false)).await.is_ok() });
        tokio::task::yield_now().await;
        drop(all);
        assert!(waits.await.unwrap(), "what must not be dropped waits instead");
        for policy in [MemoryPolicy::Try, MemoryPolicy::Wait] {
            assert!(policy.enter(&request(true)).await.unwrap().is_some());
        }
    }

    #[test]
    fn names_are_those_of_configurations() {
        for (name, policy) in MemoryPolicy::NAMES.into_iter().zip([
            MemoryPolicy::None,
            MemoryPolicy::Try,
            MemoryPolicy::Wait,
        ]) {
            let read = MemoryPolicy::deserialize(toml::Value::String(name.into())).unwrap();
            assert_eq!(read, policy);
        }
    }
}
