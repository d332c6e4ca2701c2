//! What everybody has, over time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use seawall_abi::page::Reader;
use seawall_control::Instant;
use seawall_measure::Window;
use seawall_measure::violation::Steps;
use seawall_rpc::clock;
use serde::{Deserialize, Serialize};

use super::services::Services;

/// How often pages are read: a fifth of the shortest interval between decisions of the baselines.
const EVERY: Duration = Duration::from_millis(20);

/// Units of all services at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Allocation {
    /// Seconds since the begin of the load.
    pub(super) at_s: f64,
    /// In the table's order.
    pub(super) units: Vec<u32>,
    /// Their speeds in thousandths of the base; empty where all have that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) speeds: Vec<u32>,
}

/// Units and speed of each service at one time.
type Seen = (Instant, Vec<(u32, u32)>);

/// Reads pages until it is stopped.
pub(super) struct Timeline {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<Vec<Seen>>>,
}

impl Timeline {
    pub(super) fn start(services: &Services, unit_milli: u32) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let open =
            |service: &super::services::Running| Ok((Reader::open(&service.page)?, service.units));
        let pages: Vec<(Reader, u32)> = services.iter().map(open).collect::<Result<_>>()?;
        let read = move || {
            let mut seen: Vec<Seen> = Vec::new();
            while !until.load(Relaxed) {
                let now = clock::now();
                let has = |(page, initial): &(Reader, u32)| {
                    let orders = page.orders()?.standing(now.as_nanos());
                    let units = match orders.granted_milli {
                        0 => *initial,
                        granted => granted / unit_milli,
                    };
                    Ok((units, orders.speed(now.as_nanos())))
                };
                let all = pages.iter().map(has).collect::<Result<Vec<_>>>()?;
                if seen.last().is_none_or(|(_, last)| *last != all) {
                    seen.push((now, all));
                }
                thread::sleep(EVERY);
            }
            Ok(seen)
        };
        let thread = thread::Builder::new().name("seawall-timeline".into()).spawn(read)?;
        Ok(Self { stop, thread })
    }

    /// What was seen, and the mean units in the window: the cores used.
    pub(super) fn finish(self, start: Instant, window: Window) -> Result<(Vec<Allocation>, f64)> {
        self.stop.store(true, Relaxed);
        let seen = self.thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        let mut steps = Steps::new(window);
        let mut all = Vec::new();
        for (at, has) in seen {
            steps.set(at, has.iter().map(|(units, _)| f64::from(*units)).sum());
            let speeds: Vec<u32> = has.iter().map(|(_, speed)| *speed).collect();
            let is_base = speeds.iter().all(|speed| *speed == 1_000);
            all.push(Allocation {
                at_s: at.since(start).as_secs_f64(),
                units: has.iter().map(|(units, _)| *units).collect(),
                speeds: if is_base { Vec::new() } else { speeds },
            });
        }
        Ok((all, steps.mean().context("nobody looked during the run")?))
    }
}
