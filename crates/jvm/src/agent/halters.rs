//! Servers in this process whose workers stand still with the world.

use std::sync::Arc;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_rpc::Halter;

/// Locked for moments only: the virtual machine's own thread waits for it while the world stands
/// still.
static HALTERS: Mutex<Vec<Arc<Halter>>> = Mutex::new(Vec::new());

/// A server is told of pauses from now on, until it ends.
pub(crate) fn tell(halter: Halter) {
    let mut halters = HALTERS.lock();
    halters.retain(|halter| !halter.is_over());
    halters.push(Arc::new(halter));
}

/// The world stands still until about then.
pub(super) fn halt(until: Instant) {
    HALTERS.lock().iter().for_each(|halter| halter.halt(until));
}

/// Those who cannot wait so long are answered.
pub(super) fn refuse() {
    let all = HALTERS.lock().clone();
    all.iter().for_each(|halter| halter.refuse());
}

/// It goes on.
pub(super) fn resume() {
    HALTERS.lock().iter().for_each(|halter| halter.resume());
}
