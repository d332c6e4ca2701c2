//! What only the kernel does or knows, for servers whose program can ask it: who refuses in its
//! receive path, and what its run queues tell of waits.

use std::error::Error;
use std::sync::{Arc, OnceLock};

use seawall_control::bounce::{Bouncer, Open, Problem};
use seawall_control::predict::starvation::{CpuDelay, OpenCpuDelay};

static BOUNCER: OnceLock<Open> = OnceLock::new();
static CPU_DELAY: OnceLock<OpenCpuDelay> = OnceLock::new();

/// Why the kernel does not do what a setting asks of it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("guardian.{setting} is not possible here: {problem}. {instead} may be")]
pub struct KernelError {
    setting: &'static str,
    instead: &'static str,
    problem: String,
}

/// Has servers of this process that shall be guarded by the kernel open what `open` does, as
/// `seawall_node::Bounce::for_server`. False if that was decided before.
pub fn install_bouncer(open: Open) -> bool {
    BOUNCER.set(open).is_ok()
}

/// Has servers of this process whose guardian shall go by the kernel's run queues open what `open`
/// does, as `seawall_node::Foresight::for_server`. False if that was decided before.
pub fn install_cpu_delay(open: OpenCpuDelay) -> bool {
    CPU_DELAY.set(open).is_ok()
}

/// A bouncer for one server.
pub(in crate::server) fn bouncer() -> Result<Arc<dyn Bouncer>, KernelError> {
    opened(BOUNCER.get().map(|open| open())).map_err(|problem| KernelError {
        setting: "way = \"kernel\"",
        instead: "\"patrol\", or \"auto\",",
        problem,
    })
}

/// A predictor for one server.
pub(in crate::server) fn cpu_delay() -> Result<Box<dyn CpuDelay>, KernelError> {
    opened(CPU_DELAY.get().map(|open| open())).map_err(|problem| KernelError {
        setting: "predictor = \"run-queues\"",
        instead: "\"earlier-waits\"",
        problem,
    })
}

/// An error and its causes.
fn chain(problem: &dyn Error) -> String {
    match problem.source() {
        Some(source) => format!("{problem}: {}", chain(source)),
        None => problem.to_string(),
    }
}

fn opened<T>(opened: Option<Result<T, Problem>>) -> Result<T, String> {
    match opened {
        Some(opened) => opened.map_err(|problem| chain(&*problem)),
        None => {
            Err("the program was built without it (`seawall` has it with the feature node)"
                .to_owned())
        }
    }
}
