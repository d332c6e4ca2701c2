//! The running proxy: until it is told to stop, and anew when its configuration changes.

use std::future::pending;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use seawall_measure::names;
use seawall_proxy::{Config, Proxy, Watched};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::interval;

use super::{Options, describe};
use crate::live::{self, About, Asks, Hosts, Live, View};
use crate::output;
use crate::serve::metrics::{Forgets, PERIOD, Recording};
use crate::serve::stdin_end;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Upstreams and replicas that a new configuration does not have are shown for so long.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Runs until SIGTERM, SIGINT, or what else ends it.
pub(super) fn run(options: &Options, config: Config) -> Result<()> {
    let (publisher, asks) = live::asks();
    let shown = config.metrics.clone();
    let recording = Recording::start(shown.listen.is_some(), None, Forgets::Gauges(FORGOTTEN))?;
    // Before anybody is told that it runs: who changes a file then has it noticed.
    let files = options.config.as_deref().map(|file| Watched::look(file, &config));
    let proxy = Proxy::start(config)?; // what it records needs the recorder first
    let about = describe(&proxy.config(), proxy.address());
    let shows = About::new(first_line(&about));
    let live = match shown.listen.zip(recording.handle.clone()) {
        None => None,
        Some((address, handle)) => {
            let source = live::Source::recorder(handle, Some(publisher));
            let hosts = Hosts::new(&shown.allow_hosts)?;
            Some(Live::start(address, View { source, about: shows.clone(), hosts })?)
        }
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let signals = Signals::listen()?;
        if !options.until_stdin_ends {
            eprint!("{about}");
            live.iter().for_each(|live| eprintln!("  live page: {}", live.url()));
            eprintln!("  Ctrl-C stops it");
        }
        let metrics = live.as_ref().map(|live| live.address().to_string());
        let ready = json!({ "address": proxy.address().to_string(), "metrics": metrics });
        output::print(&(ready.to_string() + "\n"))?;
        serve(options, &proxy, &shows, files, signals, asks).await;
        anyhow::Ok(())
    })?;
    if let Err(left) = proxy.shutdown() {
        tracing::warn!("cut off, not having finished within timeouts.drain: {left}");
    }
    Ok(())
}

/// What this process can be told.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on, signals are noticed rather than deadly.
    fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot handle SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot handle Ctrl-C")?,
            hangup: signal(SignalKind::hangup()).context("cannot handle SIGHUP")?,
        })
    }
}

/// What `describe` says of all of it.
fn first_line(description: &str) -> &str {
    description.lines().next().unwrap_or_default()
}

/// Publishes and reloads until the proxy is to stop; `shows` says what runs.
async fn serve(
    options: &Options,
    proxy: &Proxy,
    shows: &About,
    mut files: Option<Watched>,
    mut signals: Signals,
    mut asks: Asks,
) {
    let file = options.config.as_deref();
    let stdin = async {
        if options.until_stdin_ends {
            let _ = stdin_end().await;
        } else {
            pending::<()>().await;
        }
    };
    tokio::pin!(stdin);
    let mut looks = interval(LOOK);
    let mut ticks = interval(PERIOD);
    let cause = loop {
        let is_asked = tokio::select! {
            _ = signals.terminate.recv() => break "SIGTERM",
            _ = signals.interrupt.recv() => break "SIGINT",
            () = &mut stdin => break "the end of standard input",
            _ = ticks.tick() => {
                proxy.publish();
                continue;
            }
            Some(ask) = asks.recv() => {
                proxy.publish();
                let _ = ask.send(()); // who asked may have lost patience
                continue;
            }
            _ = signals.hangup.recv() => true,
            _ = looks.tick() => false,
        };
        let now = files.as_ref().map(Watched::again);
        if !is_asked && now == files {
            continue;
        }
        // Looked at before it is read: what changes in between is noticed the next time.
        files = now;
        if reload(options, proxy) {
            shows.set(first_line(&describe(&proxy.config(), proxy.address())));
            let named = |(now, file): (&Watched, &Path)| now.with(file, &proxy.config());
            files = files.as_ref().zip(file).map(named);
        }
    };
    tracing::info!(cause, "stopping");
}

/// Reads the configuration again. What cannot be used is reported, and changes nothing.
fn reload(options: &Options, proxy: &Proxy) -> bool {
    let read = options.read().and_then(|config| Ok(proxy.reload(config)?));
    match &read {
        Ok(()) => tracing::info!("the configuration was read again, and counts"),
        Err(error) => {
            let error = crate::message(error);
            tracing::error!("the configuration cannot be used, the old one stays: {error}");
        }
    }
    let result = if read.is_ok() { "used" } else { "refused" };
    metrics::counter!(names::RELOADS.name, "result" => result).increment(1);
    read.is_ok()
}
