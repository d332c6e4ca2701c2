//! Puts containers back through the API server, for who has nothing but the saved state.

use std::collections::BTreeMap;
use std::thread;

use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tokio::time;

use super::api::{ApiError, Call, Client, Server};
use super::pods::{self, Place};
use super::worker::backoff;
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

/// Connections to servers, for as long as containers are put back.
#[derive(Debug, Default)]
pub struct Restorer {
    runtime: Option<Runtime>,
    clients: BTreeMap<Server, Client>,
    /// Servers that could not be reached: once is enough for all containers.
    away: BTreeMap<Server, ApiError>,
}

impl Restorer {
    /// Asks for what the pod said. The kubelet then does it, a little later.
    pub(in crate::agent::actuator) fn restore(
        &mut self,
        saved: &Resize,
    ) -> Result<(), ActuatorError> {
        if let Some(error) = self.away.get(&saved.server) {
            return Err(error.clone().into());
        }
        if self.runtime.is_none() {
            let built = Builder::new_current_thread().enable_all().build();
            let none = |error| ActuatorError::Remote(format!("no runtime: {error}"));
            self.runtime = Some(built.map_err(none)?);
        }
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let server = &saved.server;
        let client =
            self.clients.entry(server.clone()).or_insert_with(|| Client::new(server.clone()));
        // A thread of its own: who calls may be in a runtime already, and those do not nest.
        let put =
            thread::scope(|scope| scope.spawn(|| runtime.block_on(put(client, saved))).join());
        let put = put.unwrap_or_else(|_| Err(ApiError::Local("it has panicked".to_owned())));
        match put {
            Ok(true) => Ok(()),
            Ok(false) => Err(ActuatorError::Gone),
            Err(error) => {
                if error.is_transient() && error.code().is_none() {
                    self.away.insert(server.clone(), error.clone());
                }
                Err(error.into())
            }
        }
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
