//! Which handler serves which method.

use std::future::Future;
use std::sync::Arc;

use async_task::{Builder, Task};
use bytes::Bytes;
use seawall_control::request::{Class, Stage};

use super::admission::Admission;
use super::context::Context;
use super::job::{Call, serve};
use super::run_queue::{Job, RunQueue};
use crate::status::Status;

/// So many of its methods a class without a name of its own is called by.
const METHODS_NAMED: usize = 3;

/// The methods of a service, by number.
#[derive(Clone, Default)]
pub struct Router {
    methods: Vec<Option<Method>>,
    classes: [Option<String>; Class::COUNT],
    stages: Vec<(Stage, String)>,
}

#[derive(Clone)]
struct Method {
    name: &'static str,
    class: Class,
    is_repeatable: bool,
    handler: Arc<dyn Handler>,
}

impl Router {
    /// A router without methods: every call is answered with an error.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves calls of `number` by `handler`, measured in the default class.
    ///
    /// ```
    /// # use seawall_rpc::{Context, Router, Status};
    /// # use bytes::Bytes;
    /// async fn echo(_ctx: Context, payload: Bytes) -> Result<Bytes, Status> {
    ///     Ok(payload)
    /// }
    /// let router = Router::new().method(1, "echo", echo);
    /// ```
    #[must_use]
    pub fn method<F, Fut>(self, number: u16, name: &'static str, handler: F) -> Self
    where
        F: Fn(Context, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Bytes, Status>> + Send + 'static,
    {
        self.method_in_class(number, name, Class::default(), handler)
    }

    /// Serves calls of `number` by `handler`, measured as `class`.
    #[must_use]
    pub fn method_in_class<F, Fut>(
        mut self,
        number: u16,
        name: &'static str,
        class: Class,
        handler: F,
    ) -> Self
    where
        F: Fn(Context, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Bytes, Status>> + Send + 'static,
    {
        let index = usize::from(number);
        if self.methods.len() <= index {
            self.methods.resize(index + 1, None);
        }
        let handler = Arc::new(handler);
        self.methods[index] = Some(Method { name, class, is_repeatable: false, handler });
        self
    }

    /// Says that calls of `number` may be refused although their handler has begun, and served by
    /// another replica as well: they change nothing, or nothing more the second time. Then they
    /// need not wait for workers that [stand still](super::Halter).
    #[must_use]
    pub fn repeatable(mut self, number: u16) -> Self {
        if let Some(Some(method)) = self.methods.get_mut(usize::from(number)) {
            method.is_repeatable = true;
        }
        self
    }

    /// Calls a class `name` in results and metrics. Without that it is called by its methods, the
    /// first few of them. Beyond [`Class::COUNT`] classes the last name counts for all that share
    /// its row.
    #[must_use]
    pub fn class(mut self, class: Class, name: impl Into<String>) -> Self {
        self.classes[class.row()] = Some(name.into());
        self
    }

    /// Tells clients the name of a stage of the service's own, such as a lock at which requests may
    /// be refused. A name that is told again replaces the first.
    #[must_use]
    pub fn stage(mut self, stage: Stage, name: impl Into<String>) -> Self {
        self.stages.retain(|(known, _)| *known != stage);
        self.stages.push((stage, name.into()));
        self
    }

    /// Stages that clients are told of.
    pub(super) fn stages(&self) -> impl Iterator<Item = (Stage, String)> + '_ {
        self.stages.iter().filter(|(stage, _)| stage.0 >= Stage::FIRST_OWN).cloned()
    }

    /// The class of a method; calls of unknown methods are in the default class.
    pub(super) fn class_of(&self, number: u16) -> Class {
        self.find(number).map_or(Class::default(), |method| method.class)
    }

    /// True if calls of some method may be served twice.
    pub(super) fn has_repeatable(&self) -> bool {
        self.methods.iter().flatten().any(|method| method.is_repeatable)
    }

    /// True if calls of a method may be served twice.
    pub(super) fn is_repeatable(&self, number: u16) -> bool {
        self.find(number).is_some_and(|method| method.is_repeatable)
    }

    /// The names of all classes that have methods or were named.
    pub(super) fn class_names(&self) -> [Option<String>; Class::COUNT] {
        std::array::from_fn(|row| {
            let methods = self.methods.iter().flatten();
            let mut methods = methods.filter(|method| method.class.row() == row);
            self.classes[row].clone().or_else(|| {
                let names: Vec<_> =
                    methods.by_ref().take(METHODS_NAMED).map(|it| it.name).collect();
                let more = if methods.next().is_some() { "/…" } else { "" };
                (!names.is_empty()).then(|| names.join("/") + more)
            })
        })
    }

    /// Makes a job of a call. A method that does not exist gets one that says so.
    pub(super) fn job(
        &self,
        call: Call,
        payload: Bytes,
        admission: &Arc<Admission>,
        queue: &Arc<RunQueue>,
    ) -> (Job, Task<(), Context>) {
        let handler: Arc<dyn Handler> = match self.find(call.context.claims().method) {
            Some(method) => method.handler.clone(),
            None => Arc::new(unknown_method),
        };
        handler.job(call, payload, admission.clone(), queue)
    }

    fn find(&self, number: u16) -> Option<&Method> {
        self.methods.get(usize::from(number))?.as_ref()
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let methods = self.methods.iter().enumerate();
        let names = methods.filter_map(|(number, method)| Some((number, method.as_ref()?.name)));
        f.debug_map().entries(names).finish()
    }
}

async fn unknown_method(ctx: Context, _payload: Bytes) -> Result<Bytes, Status> {
    let method = ctx.claims().method;
    Err(Status::error(Status::UNIMPLEMENTED, format!("method {method} does not exist")))
}

/// A handler whose future's type is known only where it is made into a job: one allocation a
/// request.
trait Handler: Send + Sync {
    fn job(
        self: Arc<Self>,
        call: Call,
        payload: Bytes,
        admission: Arc<Admission>,
        queue: &Arc<RunQueue>,
    ) -> (Job, Task<(), Context>);
}

impl<F, Fut> Handler for F
where
    F: Fn(Context, Bytes) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Bytes, Status>> + Send + 'static,
{
    fn job(
        self: Arc<Self>,
        call: Call,
        payload: Bytes,
        admission: Arc<Admission>,
        queue: &Arc<RunQueue>,
    ) -> (Job, Task<(), Context>) {
        let context = call.context.clone();
        // Called by the worker: all of a handler is measured, and a panic in it is its own.
        let handed = context.clone();
        let handled = async move { self(handed, payload).await };
        Builder::new()
            .metadata(context)
            .spawn(move |_| serve(call, admission, handled), queue.scheduler())
    }
}
