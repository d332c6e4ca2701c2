//! A program in the kernel as the guardian: found at start, and told of connections.

use std::sync::{Arc, OnceLock};

use seawall_control::bounce::{Bouncer, Open};
use thiserror::Error;

static OPEN: OnceLock<Open> = OnceLock::new();

/// Why the kernel does not answer for a server.
#[derive(Clone, Debug, Error)]
#[error("guardian.way = \"kernel\" is not possible here: {0}. \"patrol\", or \"auto\", may be")]
pub struct BouncerError(String);

/// Has servers of this process that shall be guarded by the kernel open what `open` does, as
/// `seawall_node::Bounce::for_server`. False if that was decided before.
pub fn install_bouncer(open: Open) -> bool {
    OPEN.set(open).is_ok()
}

/// A bouncer for one server.
pub(in crate::server) fn open() -> Result<Arc<dyn Bouncer>, BouncerError> {
    let open = OPEN.get().ok_or_else(|| {
        BouncerError(
            "the program was built without it (`seawall` has it with the feature node)".into(),
        )
    })?;
    open().map_err(|problem| BouncerError(problem.to_string()))
}
