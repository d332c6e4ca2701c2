//! The thread that does what has to be done now and then: it lets the algorithm's timer fire where
//! no request does, sends the canary's bytes, closes idle sessions, and publishes metrics.
//!
//! It is no task of the runtime, because it looks at how long such wait. It looks often only where
//! somebody has to: a thousand looks a second take a fiftieth of a core that is busy already.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::admission::Shared;
use super::canary::Sender;
use super::stats::Stats;
use crate::clock;

/// How often it looks while no request needs the canary, and after how many looks that is so.
const IDLE_TICK: Duration = Duration::from_millis(50);
const QUIET_LOOKS: u32 = 100;

/// How often metrics are published.
const PUBLISH: Duration = Duration::from_secs(1);

/// Starts the thread with the first request, whose runtime the canary asks. It ends with the layer.
pub(super) fn keep(shared: &Arc<Shared>) {
    shared.keeping.call_once(|| {
        let weak = Arc::downgrade(shared);
        let asks = !shared.config.canary.is_zero();
        let runtime = Handle::try_current().ok().filter(|_| asks);
        let sender = runtime.and_then(|runtime| match shared.canary.start(&runtime) {
            Ok(sender) => Some(sender),
            Err(error) => {
                tracing::error!(%error, "nobody asks the runtime how long its tasks wait");
                None
            }
        });
        let thread = std::thread::Builder::new().name("seawall-keeper".into());
        if let Err(error) = thread.spawn(move || keep_time(&weak, sender)) {
            tracing::error!(%error, "the algorithm's timers do not fire");
        }
    });
}

fn keep_time(shared: &Weak<Shared>, mut sender: Option<Sender>) {
    let mut quiet = 0;
    let (mut publish_at, mut published) = (clock::now(), Stats::default());
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let now = clock::now();
        shared.tick(now);
        if now >= publish_at {
            let stats = shared.stats();
            stats.publish(&published);
            published = stats;
            publish_at = now + PUBLISH;
        }
        let (canary, interval) = (shared.canary.clone(), shared.config.canary);
        drop(shared); // while this sleeps, the layer may be dropped
        quiet = if canary.was_stirred() { 0 } else { quiet + 1 };
        match &mut sender {
            Some(sender) if quiet < QUIET_LOOKS => {
                sender.send(&canary, now);
                std::thread::sleep(interval);
            }
            Some(_) => canary.sleep(IDLE_TICK),
            None => std::thread::sleep(IDLE_TICK),
        }
    }
}
