//! Puts containers back through the API server, for who has nothing but the saved state.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time;

use super::api::{ApiError, Call, Client, Server};
use super::pods::{self, Place};
use super::worker::{LANES, backoff};
use crate::agent::actuator::ActuatorError;

/// How often it is tried when the server cannot be reached or has no time.
const TRIES: u32 = 5;

/// What a container's pod said before the agent touched it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// Where that was said.
    pub server: Server,
    /// Which container it is.
    pub place: Place,
    /// Its limit of CPU.
    pub limit: String,
    /// Its request of CPU, if there was one.
    pub request: Option<String>,
}

/// What came of those that were asked for together, and who cannot be reached.
#[derive(Debug, Default)]
pub struct Restorer {
    done: BTreeMap<(Server, Place), Result<bool, ApiError>>,
    /// Servers that could not be reached: once is enough for all containers.
    away: BTreeMap<Server, ApiError>,
}

impl Restorer {
    /// Asks for all of these now, several at a time.
    pub(in crate::agent) fn all<'a>(saved: impl Iterator<Item = &'a Resize>) -> Self {
        let mut restorer = Self::default();
        if let Err(problem) = restorer.ask(saved.cloned().collect()) {
            tracing::warn!(%problem, "pods are put back one after the other");
        }
        restorer
    }

    /// Asks for what the pod said, if that has not been done. The kubelet then does it, a little
    /// later.
    pub(in crate::agent::actuator) fn restore(
        &mut self,
        saved: &Resize,
    ) -> Result<(), ActuatorError> {
        let key = (saved.server.clone(), saved.place.clone());
        if !self.done.contains_key(&key) {
            self.ask(VecDeque::from([saved.clone()])).map_err(ActuatorError::Remote)?;
        }
        match self.done.remove(&key) {
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(ActuatorError::Gone),
            Some(Err(error)) => Err(error.into()),
            None => Err(ActuatorError::Remote("who put it back has panicked".to_owned())),
        }
    }

    fn ask(&mut self, waiting: VecDeque<Resize>) -> Result<(), String> {
        if waiting.is_empty() {
            return Ok(());
        }
        let lanes = waiting.len().min(LANES);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let shared = Arc::new(Mutex::new((waiting, std::mem::take(self))));
        let all = async {
            let lanes = (0..lanes).map(|_| lane(Arc::clone(&shared)));
            let mut lanes: JoinSet<()> = lanes.collect();
            while lanes.join_next().await.is_some() {}
        };
        // A thread of its own: who calls may be in a runtime already, and those do not nest.
        let _ = thread::scope(|scope| scope.spawn(|| runtime.block_on(all)).join());
        *self = std::mem::take(&mut lock(&shared).1);
        Ok(())
    }
}

type Shared = Arc<Mutex<(VecDeque<Resize>, Restorer)>>;

fn lock(shared: &Shared) -> MutexGuard<'_, (VecDeque<Resize>, Restorer)> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts one after the other back, until none is waiting.
async fn lane(shared: Shared) {
    let mut clients = BTreeMap::<Server, Client>::new();
    loop {
        let (saved, away) = {
            let mut shared = lock(&shared);
            let Some(saved) = shared.0.pop_front() else { return };
            let away = shared.1.away.get(&saved.server).cloned();
            (saved, away)
        };
        let server = &saved.server;
        let result = match away {
            Some(error) => Err(error),
            None => {
                let new = || Client::new(server.clone());
                put(clients.entry(server.clone()).or_insert_with(new), &saved).await
            }
        };
        let restorer = &mut lock(&shared).1;
        if let Err(error) = &result
            && error.is_transient()
            && error.code().is_none()
        {
            restorer.away.insert(server.clone(), error.clone());
        }
        restorer.done.insert((saved.server, saved.place), result);
    }
}

/// Whether the container is still there, and was put back.
async fn put(client: &mut Client, saved: &Resize) -> Result<bool, ApiError> {
    let resize = saved.place.resize(&saved.limit, saved.request.as_deref());
    let Err(error) = insist(client, &resize).await else { return Ok(true) };
    match error.code() {
        Some(404) => Ok(false),
        // Another pod of the same name? Then it is no business of ours.
        Some(409 | 422) => match insist(client, &saved.place.look()).await {
            Ok(body) if pods::read_pod(&body)?.uid == saved.place.uid => Err(error),
            Ok(_) => Ok(false),
            Err(look) if look.code() == Some(404) => Ok(false),
            Err(_) => Err(error),
        },
        _ => Err(error),
    }
}

async fn insist(client: &mut Client, call: &Call) -> Result<hyper::body::Bytes, ApiError> {
    let mut attempt = 0;
    loop {
        match client.call(call).await {
            Err(error) if error.is_transient() && attempt + 1 < TRIES => {
                let wait = backoff(attempt).max(error.retry_after().unwrap_or_default());
                time::sleep(wait).await;
                attempt += 1;
            }
            answer => return answer,
        }
    }
}
