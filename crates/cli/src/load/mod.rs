//! `seawall load`: offers a load on schedule, whatever the server answers, and measures.

mod options;
mod result;
pub(crate) mod retries;

use anyhow::Result;
pub(crate) use seawall_lab::load::{engine, probe, web, workload};

use crate::output::print;
use crate::progress::Progress;
use crate::report::page;
use crate::{descriptors, host, pin};
use workload::Workload;

pub(crate) use options::Options;

/// Runs `seawall load`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let offer = options.offer()?;
    options.html.as_deref().map_or(Ok(()), page::file::check)?;
    let each = if offer.retries { offer.servers.len() as u32 } else { 1 };
    descriptors::suffice(offer.sessions.saturating_mul(each), offer.threads)?;
    if let Some(core) = options.pin {
        pin::to_core(core)?;
    }
    if let Workload::Kv(mix) = &offer.workload {
        for &address in &offer.servers {
            let what = format!("filling the store at {address}");
            let progress = Progress::of_count(mix.key_count(), what);
            probe::fill(address, &offer.client, mix, |written| progress.reached(written))?;
        }
    }
    let progress = Progress::of_time(offer.warm_up + offer.time, "offering the load");
    let run = engine::run(&offer, |passed| progress.passed(passed))?;
    drop(progress);

    // That the page cannot be written is told last, so that the numbers are not lost with it.
    let written = options.html.as_deref().map_or(Ok(()), |file| {
        let page = page::run::render(&result::report(options, &offer, &run), &host::describe());
        page::file::write(file, &page)
    });
    print(&if options.json { result::json(&run, options.bins)? } else { result::table(&run) })?;
    for warning in result::warnings(&run) {
        eprintln!("warning: {warning}");
    }
    written
}
