//! What happens when nothing else does: waits that have become too long, and the algorithm's own
//! clock.

use std::sync::Arc;
use std::time::Duration;

use seawall_tower::clock;
use tokio::time::sleep;

use super::Admission;

/// Longest sleep: the timer of tokio holds a little more than two years.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Does what is due, for ever.
pub(super) async fn run(admission: &Arc<Admission>) {
    loop {
        let next = {
            let now = clock::now();
            let owned = &mut *admission.owned.lock();
            let next = owned.state.on_time(now);
            admission.after(owned, now);
            next
        };
        let left = next.since(clock::now()).min(SLEEP_MAX);
        tokio::select! {
            () = sleep(left) => {}
            () = admission.sooner.notified() => {}
        }
    }
}
