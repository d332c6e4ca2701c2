//! A server whose page cannot be made says so once, and serves.

use std::fmt::{self, Write};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use seawall_rpc::{Request, Server, ServerConfig};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::paged;
use crate::support::{ECHO, router, session};

/// Keeps all warnings.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, _field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{value:?};").unwrap();
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
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// Starts a server, lets it serve, and gives what it warned of.
async fn warnings(config: ServerConfig) -> Vec<String> {
    let keeper = Keeper::default();
    let server = tracing::subscriber::with_default(keeper.clone(), || {
        Server::start(config, router()).unwrap()
    });
    assert!(server.page().is_none());
    let client = session(&server).await;
    for _ in 0..3 {
        client.call(Request::new(ECHO, "served")).await.unwrap();
    }
    let lines = keeper.0.lock().unwrap();
    lines.iter().filter(|line| line.contains("no page of metrics")).cloned().collect()
}

#[tokio::test]
async fn a_folder_that_is_missing_is_said_once() {
    let warned = warnings(paged(Path::new("/nonexistent/pages"), "service")).await;
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("/nonexistent/pages"), "{warned:?}");
}

#[tokio::test]
async fn a_file_in_place_of_the_folder_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let warned = warnings(paged(&file, "service")).await;
    assert!(warned.len() == 1 && warned[0].contains("Not a directory"), "{warned:?}");
}

#[tokio::test]
async fn a_folder_in_which_nothing_can_be_made_is_said_once() {
    // Nobody may make files there, root included.
    let warned = warnings(paged(Path::new("/proc/self"), "service")).await;
    assert!(warned.len() == 1 && warned[0].contains("/proc/self"), "{warned:?}");
}

#[tokio::test]
async fn a_name_that_no_file_may_have_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let warned = warnings(paged(folder.path(), "../service")).await;
    assert!(warned.len() == 1 && warned[0].contains("A-Z a-z 0-9"), "{warned:?}");
}

#[tokio::test]
async fn a_page_that_another_server_has_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = Server::start(paged(folder.path(), "service"), router()).unwrap();
    let warned = warnings(paged(folder.path(), "service")).await;
    assert!(warned.len() == 1 && warned[0].contains("different names"), "{warned:?}");
    assert!(first.page().unwrap().path().exists());
}
