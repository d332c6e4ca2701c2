//! What a service does for one request: the steps of its table, in order.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use parking_lot::Mutex;
use seawall_control::Rng;
use seawall_measure::ServiceTime;
use seawall_measure::graph::Step;
use seawall_rpc::{CallError, Context, Downstream, Request, Status, clock};

use crate::cpu::Cpu;
use crate::service::JOB;
use crate::store::StoreClient;

/// A service, ready to serve.
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    pub(crate) cpu: Cpu,
    /// By the callee's name.
    pub(crate) links: BTreeMap<String, Downstream>,
    /// A real store that answers each request before the steps go on.
    pub(crate) store: Option<StoreClient>,
    /// What chances and times of work are drawn from.
    pub(crate) rng: Mutex<Rng>,
}

/// One request while it is served.
struct Run<'a> {
    of: &'a Steps,
    ctx: &'a Context,
    /// Work that the store has done already.
    done: Mutex<Duration>,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

impl Steps {
    /// Serves one request.
    ///
    /// # Errors
    ///
    /// What a service that it called, or its store, did not do.
    pub(crate) async fn serve(&self, ctx: &Context) -> Result<(), Status> {
        let mut done = Duration::ZERO;
        if let Some(store) = &self.store {
            let begun = clock::now();
            let asked = store.get().await;
            asked.map_err(|error| Status::error(Status::INTERNAL, error.to_string()))?;
            done = clock::now().since(begun);
        }
        let run = Run { of: self, ctx, done: Mutex::new(done) };
        run.steps(&self.steps).await
    }
}

impl Run<'_> {
    fn steps<'a>(&'a self, steps: &'a [Step]) -> Running<'a> {
        Box::pin(async move {
            for step in steps {
                if step.chance.is_some_and(|chance| !self.of.rng.lock().chance(chance)) {
                    continue;
                }
                if let Some(work) = step.work {
                    self.work(work).await;
                } else if let Some(callee) = &step.call {
                    let link = self.of.links.get(callee).expect("every callee has a link");
                    self.call(link).await?;
                } else {
                    self.branches(&step.parallel).await?;
                }
            }
            Ok(())
        })
    }

    async fn call(&self, link: &Downstream) -> Result<(), Status> {
        match link.call(self.ctx, Request::new(JOB, Bytes::new())).await {
            Ok(_) => Ok(()),
            Err(CallError::Rejected(rejected)) => Err(Status::Rejected(rejected)),
            Err(error) => Err(Status::error(Status::INTERNAL, format!("{}: {error}", link.name()))),
        }
    }

    /// All branches go to their end, also beside one that failed: nobody calls them back.
    async fn branches(&self, branches: &[Vec<Step>]) -> Result<(), Status> {
        let ended = join_all(branches.iter().map(|branch| self.steps(branch))).await;
        ended.into_iter().collect()
    }

    async fn work(&self, work: ServiceTime) {
        let work = work.sample(&mut self.of.rng.lock());
        let left = {
            let mut done = self.done.lock();
            let saved = work.min(*done);
            *done -= saved;
            work - saved
        };
        // Also beside a branch that waits for a reply, and in slots, which no thread polls.
        let _working = self.ctx.working();
        self.of.cpu.work(left).await;
    }
}
