//! Every connection that is closed for a fault leaves its reason in the log.

mod support;

use std::fmt::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

use seawall_control::wire::Hello;
use seawall_rpc::{Known, Server};
use support::raw::{Raw, call};
use support::{ECHO, GROW, SLEEP, one_credit, router, until};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps all warnings, as "message reason".
struct Keeper;

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if matches!(field.name(), "message" | "reason") {
            write!(self.0, "{value:?};").unwrap();
        }
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// Waits for a warning with this reason.
async fn logged(reason: &str) {
    until(|| {
        let lines = LINES.lock().unwrap();
        lines.iter().any(|line| line.contains("closing a connection") && line.contains(reason))
    })
    .await;
}

async fn greeted(server: &Server) -> Raw {
    Raw::open(server.address()).await
}

#[tokio::test]
async fn faults_are_logged_with_their_reason() {
    tracing::subscriber::set_global_default(Keeper).unwrap();
    let mut config = one_credit();
    let limits = &mut config.limits;
    limits.hello_timeout = Duration::from_millis(100);
    limits.frame_timeout = Duration::from_millis(100);
    limits.write_timeout = Duration::from_millis(100);
    limits.violations = 1;
    limits.sessions = 1;
    let server = Server::start(config.clone(), router()).unwrap();

    let mut quiet = Raw::connect(server.address()).await;
    logged("the hello did not come in time").await;
    quiet.rest().await;

    let mut partial = greeted(&server).await;
    partial.send(&call(1, ECHO, b"half")[..66]).await;
    logged("a frame was not completed in time").await;
    partial.rest().await;

    let mut stranger = greeted(&server).await;
    stranger.send(b"nonsense").await;
    logged("not a Seawall frame").await;
    stranger.rest().await;

    let mut impatient = greeted(&server).await;
    impatient.send(&(0..9).flat_map(|id| call(id, SLEEP, b"")).collect::<Vec<u8>>()).await;
    logged("too many calls beyond the window").await;
    impatient.rest().await;

    let mut deaf = Raw::connect_narrow(server.address()).await.greet(&Hello::default()).await;
    deaf.send(&call(1, GROW, &(64_u32 << 20).to_le_bytes())).await;
    logged("the client does not read its replies").await;
    drop(deaf);

    let _only = greeted(&server).await;
    let mut excess = Raw::connect(server.address()).await;
    logged("the server has no room for another session").await;
    excess.rest().await;
    drop(server);

    config.trust.require_identity = true;
    let token = Some("a token that nobody shows".into());
    config.trust.identities.push(Known { name: "ours".into(), token, ..Known::default() });
    let server = Server::start(config, router()).unwrap();
    let mut unknown = Raw::connect(server.address()).await;
    unknown.send(&support::raw::hello_frame(&Hello::default())).await;
    logged("wants a known token or client certificate").await;
    unknown.rest().await;
}
