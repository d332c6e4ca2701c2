//! A server that answers while its workers do not get the CPU.
//!
//! The starvation is real: a real-time thread has the workers' CPU, and ends only when the test has
//! seen what it waits for. Where real-time priority is not permitted, the tests check that the
//! server says so.

#[path = "../support/mod.rs"]
mod support;

mod starve;
mod streams;

use std::time::Duration;

use seawall_control::predict::starvation::{CpuDelay, Starved};
use seawall_control::request::Stage;
use seawall_control::wire::Status as WireStatus;
use seawall_rpc::{CallError, CpuPredictor, GuardianConfig, GuardianWay, Server, ServerConfig};
use starve::Starvation;
use streams::{ALONE, MS, call, guarded, is_cpu_refusal, start};
use support::raw::Raw;
use support::{ECHO, balanced, config, router, session, until};

#[tokio::test]
async fn auto_wants_permission_and_off_wants_none() {
    let _alone = ALONE.lock().await;
    let guarded = |mode, workers, dispatchers| {
        let mut config = config("none");
        config.guardian.way = mode;
        (config.threads.workers, config.threads.dispatchers) = (workers, dispatchers);
        Server::start(config, router()).map(|server| server.is_guarded())
    };
    let permitted = guarded(GuardianWay::Patrol, 1, 0).is_ok();
    assert_eq!(guarded(GuardianWay::Patrol, 1, 0).unwrap_or(false), permitted);
    assert_eq!(guarded(GuardianWay::Auto, 2, 0).unwrap(), permitted);
    assert_eq!(guarded(GuardianWay::Auto, 1, 1).unwrap(), permitted);
    assert_eq!(guarded(GuardianWay::Auto, 1, 0).unwrap(), permitted);
    assert!(!guarded(GuardianWay::Off, 2, 2).unwrap());
}

#[tokio::test]
async fn calls_are_refused_while_the_workers_wait_for_the_cpu() {
    refuse_while_starved(alone()).await;
    refuse_while_starved(divided()).await;
}

async fn refuse_while_starved(config: ServerConfig) {
    let _alone = ALONE.lock().await;
    let Some((server, cpu)) = start(config) else { return };
    let session = session(&server).await;
    session.call(seawall_rpc::Request::new(ECHO, "")).await.unwrap();

    let starvation = Starvation::begin(cpu);
    // The first waits in the run queue until the wait is longer than what it has left; those behind
    // it are refused at once: before they have waited at all, they cannot wait so long.
    let ask = |ms| session.call(seawall_rpc::Request::new(ECHO, "x").with_deadline(MS * ms));
    let first = ask(100);
    let CallError::Rejected(queued) = first.await.unwrap_err() else { panic!("not refused") };
    assert_eq!(queued.stage, Stage::CPU);
    assert!(queued.predicted_delay > Duration::ZERO);
    let CallError::Rejected(at_entry) = ask(20).await.unwrap_err() else { panic!("not refused") };
    assert_eq!(at_entry.stage, Stage::CPU);
    assert!(at_entry.predicted_delay > 20 * MS && !at_entry.retry_after.is_zero());
    // What has no deadline waits.
    let patient = session.call(seawall_rpc::Request::new(ECHO, "patient"));
    until(|| server.stats().outstanding == 1).await;
    assert_eq!(server.stats().completions, 1);
    starvation.end();

    assert_eq!(patient.await.unwrap().payload, "patient");
    // A worker that has run ends it.
    let later = session.call(seawall_rpc::Request::new(ECHO, "y").with_deadline(5_000 * MS));
    assert_eq!(later.await.unwrap().payload, "y");
    assert_eq!(server.stats().refusals[&Stage::CPU], 2);
    drop(session);
    let stats = balanced(&server).await;
    assert_eq!((stats.completions, stats.refused()), (3, 2));
}

#[derive(Debug)]
struct Never;

impl CpuDelay for Never {
    fn predict(&mut self, _now: seawall_control::Instant, starved: &Starved<'_>) -> Duration {
        assert!(!starved.threads.is_empty());
        Duration::ZERO
    }

    fn on_episode(&mut self, _now: seawall_control::Instant, _waited: Duration) {}
}

#[tokio::test]
async fn the_predictor_can_be_replaced() {
    let _alone = ALONE.lock().await;
    let Some((server, cpu)) = start(alone()) else { return };
    server.predict_cpu_delay_by(Box::new(Never));
    let mut client = Raw::open(server.address()).await;
    client.tcp.set_nodelay(true).unwrap();
    let starvation = Starvation::begin(cpu);
    client.send(&call(1, ECHO, Some(400 * MS), b"")).await;
    client.send(&call(2, ECHO, Some(20 * MS), b"")).await;
    // Only what is late is refused: the second, when its deadline has passed.
    let answer = client.reply(2).await;
    assert!(is_cpu_refusal(&answer), "{answer:?}");
    starvation.end();
    assert_eq!(client.reply(1).await.status(), Some(WireStatus::Ok));
}

/// One thread reads, serves and writes.
fn alone() -> ServerConfig {
    guarded(GuardianWay::Patrol)
}

/// Two threads read and write, and two serve.
fn divided() -> ServerConfig {
    let mut config = alone();
    (config.threads.workers, config.threads.dispatchers) = (2, 2);
    config
}

#[tokio::test]
async fn streams_survive_every_cut() {
    streams::survive_every_cut(alone()).await;
    streams::survive_every_cut(divided()).await;
}

#[tokio::test]
async fn refusals_stand_behind_what_is_half_written() {
    streams::refuse_behind_what_is_half_written(alone()).await;
    streams::refuse_behind_what_is_half_written(divided()).await;
}

#[tokio::test]
async fn large_replies_and_refusals_share_a_stream() {
    streams::share_with_large_replies(alone()).await;
    streams::share_with_large_replies(divided()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_under_many_clients() {
    streams::lose_nothing_under_many_clients(alone()).await;
    streams::lose_nothing_under_many_clients(divided()).await;
}

#[tokio::test]
async fn credits_come_back() {
    streams::give_credits_back(alone()).await;
    streams::give_credits_back(divided()).await;
}

#[test]
fn the_kernel_answers_and_predicts_only_where_that_was_installed() {
    let refused = |change: fn(&mut GuardianConfig)| {
        let mut config = config("none");
        change(&mut config.guardian);
        Server::start(config, router()).unwrap_err().to_string()
    };
    let error = refused(|guardian| guardian.way = GuardianWay::Kernel);
    assert!(error.contains("guardian.way") && error.contains("built without it"), "{error}");
    let error = refused(|guardian| guardian.predictor = CpuPredictor::RunQueues);
    assert!(error.contains("guardian.predictor") && error.contains("built without it"), "{error}");
}

#[test]
fn unsound_settings_are_refused() {
    let with = |change: fn(&mut ServerConfig)| {
        let mut config = config("none");
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    assert!(with(|config| config.guardian.priority = 0).contains("guardian.priority"));
    assert!(with(|config| config.guardian.share = 1.0).contains("guardian.share"));
    let nobody_predicts = with(|config| {
        (config.guardian.way, config.guardian.predictor) =
            (GuardianWay::Off, CpuPredictor::RunQueues);
    });
    assert!(nobody_predicts.contains("guardian.predictor"), "{nobody_predicts}");
    let text = "[guardian]\nway = \"patrol\"\npriority = 7\nshare = 0.25\n";
    let read: ServerConfig = toml::from_str(text).unwrap();
    assert_eq!(read.guardian.way, GuardianWay::Patrol);
    assert_eq!((read.guardian.priority, read.guardian.share), (7, 0.25));
}
