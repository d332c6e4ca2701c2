//! The thread that talks to the API server, so that decisions do not wait for it.
//!
//! ```text
//!   agent ── wish for a container ──► jobs (the latest for each) ──► lanes ──► API server
//!         ◄─ answers, pods ──────────────────────────────────────────┘
//! ```
//!
//! Each lane has a connection and one request under way, so that an answer which does not come
//! holds up one container, and not all.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time;

use super::api::{ApiError, Call, Client, Server};
use super::pods::{self, Place, Pod};

/// Containers with a wish that is under way: more than a node has pods (110 by default).
const JOBS_MAX: usize = 1_024;

/// Requests under way at the same time, to one server.
pub(super) const LANES: usize = 8;

/// Pages of pods; there are 100 on each.
const PAGES_MAX: u32 = 100;

/// The wait before a request is sent again, doubled each time.
const BACKOFF_LEAST: Duration = Duration::from_millis(100);
const BACKOFF_MOST: Duration = Duration::from_secs(5);

/// What is to be done for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// It is to have this limit and request.
    Resize { milli: u32, limit: String, request: Option<String> },
    /// What the kubelet says of it is to be read.
    Look,
}

/// What came of a job.
#[derive(Debug)]
pub(super) struct Answer {
    /// The limit that was asked for; none if it was only a look.
    pub(super) milli: Option<u32>,
    pub(super) result: Result<Pod, ApiError>,
}

/// What the agent and the worker share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// There is something to do. Who takes it tells the next lane, if there is more.
    wake: Notify,
    stop: Notify,
    listed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// By the UIDs that the kubelet uses.
    pods: BTreeMap<String, Pod>,
    is_list_wanted: bool,
    /// How the newest list went.
    list: Option<Result<(), ApiError>>,
    queue: VecDeque<Place>,
    jobs: BTreeMap<Place, Job>,
    /// Containers with a request under way, and whether somebody waits for the answer.
    busy: BTreeMap<Place, bool>,
    answers: BTreeMap<Place, Answer>,
    /// When the newest request was sent, or is to be.
    turn: Option<Instant>,
    is_stopping: bool,
}

enum Next {
    Stop,
    Wait,
    List,
    Job(Place, Job),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a job; an earlier one for the same container, if it is not under way, gives way.
    /// False if there is no room.
    pub(super) fn push(&self, place: &Place, job: Job) -> bool {
        let mut inner = self.lock();
        if !inner.jobs.contains_key(place) {
            if inner.jobs.len() >= JOBS_MAX {
                return false;
            }
            inner.queue.push_back(place.clone());
        }
        inner.jobs.insert(place.clone(), job);
        self.wake.notify_one();
        true
    }

    /// Nothing more is to be done for a container.
    pub(super) fn forget(&self, place: &Place) {
        let mut inner = self.lock();
        inner.queue.retain(|queued| queued != place);
        inner.jobs.remove(place);
        inner.answers.remove(place);
        if let Some(is_awaited) = inner.busy.get_mut(place) {
            *is_awaited = false;
        }
    }

    pub(super) fn answer(&self, place: &Place) -> Option<Answer> {
        self.lock().answers.remove(place)
    }

    /// Asks for the pods of this node.
    pub(super) fn want_list(&self) {
        self.lock().is_list_wanted = true;
        self.wake.notify_one();
    }

    /// How the newest list went, if there is one.
    pub(super) fn list_error(&self) -> Option<ApiError> {
        self.lock().list.as_ref().and_then(|list| list.as_ref().err().cloned())
    }

    /// Waits for the first list.
    pub(super) fn first_list(&self) -> Result<(), ApiError> {
        let mut inner = self.lock();
        loop {
            if let Some(list) = &inner.list {
                return list.clone();
            }
            inner = self.listed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The pod of this UID.
    pub(super) fn pod(&self, uid: &str) -> Option<Pod> {
        self.lock().pods.get(uid).cloned()
    }

    fn next(&self) -> Next {
        let mut inner = self.lock();
        if inner.is_stopping {
            return Next::Stop;
        }
        let next = inner.take();
        if !matches!(next, Next::Wait) && inner.has_more() {
            self.wake.notify_one();
        }
        next
    }

    /// A job that came after one that is under way.
    fn newer(&self, place: &Place) -> Option<Job> {
        let mut inner = self.lock();
        let job = inner.jobs.remove(place)?;
        inner.queue.retain(|queued| queued != place);
        Some(job)
    }

    /// How long to wait for the next request's turn, which is `gap` after the one before.
    fn turn(&self, gap: Duration) -> Duration {
        let mut inner = self.lock();
        let now = Instant::now();
        let at = inner.turn.map_or(now, |last| now.max(last + gap));
        inner.turn = Some(at);
        at - now
    }

    fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    fn put_answer(&self, place: Place, answer: Answer) {
        let mut inner = self.lock();
        if let Ok(pod) = &answer.result {
            inner.pods.insert(pod.uid.clone(), pod.clone());
        }
        if inner.busy.remove(&place) == Some(true) {
            inner.answers.insert(place, answer);
        }
    }

    fn put_list(&self, list: Result<Vec<Pod>, ApiError>) {
        let mut inner = self.lock();
        inner.list = Some(list.map(|pods| {
            let of = |pod: Pod| (pod.mirror.clone().unwrap_or_else(|| pod.uid.clone()), pod);
            inner.pods = pods.into_iter().map(of).collect();
        }));
        self.listed.notify_all();
    }
}

impl Inner {
    fn take(&mut self) -> Next {
        if std::mem::take(&mut self.is_list_wanted) {
            return Next::List;
        }
        let Some(place) = self.free().and_then(|at| self.queue.remove(at)) else {
            return Next::Wait;
        };
        match self.jobs.remove(&place) {
            Some(job) => {
                self.busy.insert(place.clone(), true);
                Next::Job(place, job)
            }
            None => Next::Wait,
        }
    }

    /// Of the containers that wait, the first without a request under way.
    fn free(&self) -> Option<usize> {
        self.queue.iter().position(|place| !self.busy.contains_key(place))
    }

    fn has_more(&self) -> bool {
        self.is_list_wanted || self.free().is_some()
    }
}

/// The thread.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(
        server: &Server,
        node: &str,
        retries_max: u32,
        requests_per_second: u32,
    ) -> io::Result<(Self, Arc<Shared>)> {
        let shared = Arc::<Shared>::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let lane = |_| Lane {
            shared: Arc::clone(&shared),
            client: Client::new(server.clone()),
            node: node.to_owned(),
            retries_max,
            gap: Duration::from_secs(1) / requests_per_second,
        };
        let lanes: Vec<Lane> = (0..LANES).map(lane).collect();
        let thread = thread::Builder::new().name("kubernetes".to_owned()).spawn(move || {
            runtime.block_on(async {
                lanes.into_iter().map(Lane::run).collect::<JoinSet<()>>().join_all().await;
            });
            // A name that is still being looked up is not waited for.
            runtime.shutdown_background();
        })?;
        Ok((Self { shared: Arc::clone(&shared), thread: Some(thread) }, shared))
    }

    /// Drops what is not under way, and waits for the answer to what is: when this returns, no
    /// resize of ours comes after what somebody else then asks for.
    pub(super) fn stop(&mut self) {
        self.shared.lock().is_stopping = true;
        self.shared.wake.notify_waiters();
        self.shared.stop.notify_waiters();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that talks to the API server has panicked");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Lane {
    shared: Arc<Shared>,
    client: Client,
    node: String,
    retries_max: u32,
    /// Between two requests of all lanes.
    gap: Duration,
}

impl Lane {
    async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let next = {
                // Before it looks, so that what comes after that is noticed.
                let mut wake = pin!(shared.wake.notified());
                wake.as_mut().enable();
                match shared.next() {
                    Next::Wait => {
                        wake.await;
                        continue;
                    }
                    next => next,
                }
            };
            match next {
                Next::Stop => return,
                Next::Wait => {}
                Next::List => shared.put_list(self.list().await),
                Next::Job(place, job) => self.job(place, job).await,
            }
        }
    }

    async fn job(&mut self, place: Place, mut job: Job) {
        let mut attempt = 0;
        let (milli, result) = loop {
            let (milli, call) = match &job {
                Job::Resize { milli, limit, request } => {
                    (Some(*milli), place.resize(limit, request.as_deref()))
                }
                Job::Look => (None, place.look()),
            };
            match self.call(&call).await {
                Err(error) if self.tries_again(attempt, &error).await => {
                    attempt += 1;
                    job = self.shared.newer(&place).unwrap_or(job);
                }
                result => break (milli, result.and_then(|body| pods::read_pod(&body))),
            }
        };
        if let Err(error) = &result {
            tracing::debug!(pod = %place.pod, container = %place.container, %error, "in vain");
        }
        self.shared.put_answer(place, Answer { milli, result });
    }

    async fn list(&mut self) -> Result<Vec<Pod>, ApiError> {
        let (mut all, mut next) = (Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let call = pods::list(&self.node, next.as_deref());
            let mut attempt = 0;
            let body = loop {
                match self.call(&call).await {
                    Err(error) if self.tries_again(attempt, &error).await => attempt += 1,
                    result => break result?,
                }
            };
            let (page, after) = pods::read_list(&body)?;
            all.extend(page);
            match after {
                Some(token) => next = Some(token),
                None => return Ok(all),
            }
        }
        Err(ApiError::Garbled(format!("the list of pods has more than {PAGES_MAX} pages")))
    }

    async fn call(&mut self, call: &Call) -> Result<Bytes, ApiError> {
        self.rest(self.shared.turn(self.gap)).await;
        if self.shared.is_stopping() {
            return Err(ApiError::Local("the agent ends".to_owned()));
        }
        self.client.call(call).await
    }

    /// Waits before the next attempt, if there is to be one.
    async fn tries_again(&self, attempt: u32, error: &ApiError) -> bool {
        if !error.is_transient() || attempt >= self.retries_max || self.shared.is_stopping() {
            return false;
        }
        tracing::debug!(%error, attempt, "asked again");
        self.rest(backoff(attempt).max(error.retry_after().unwrap_or_default())).await;
        !self.shared.is_stopping()
    }

    /// Waits, but not when it is to stop.
    async fn rest(&self, wait: Duration) {
        let mut stop = pin!(self.shared.stop.notified());
        stop.as_mut().enable();
        if !self.shared.is_stopping() {
            let _ = time::timeout(wait, stop).await;
        }
    }
}

/// Half of it is chance: a server that comes back is not met by all nodes at once.
pub(super) fn backoff(attempt: u32) -> Duration {
    let most = BACKOFF_LEAST.saturating_mul(1 << attempt.min(10)).min(BACKOFF_MOST);
    let chance = RandomState::new().build_hasher().finish() % 1_000;
    most / 2 + most / 2 * chance as u32 / 1_000
}

#[cfg(test)]
mod tests {
    use super::super::pods::List;
    use super::*;

    fn place(container: &str) -> Place {
        Place {
            namespace: "shop".to_owned(),
            pod: "cart-0".to_owned(),
            uid: "0f1b".to_owned(),
            list: List::Containers,
            container: container.to_owned(),
        }
    }

    fn resize(milli: u32) -> Job {
        Job::Resize { milli, limit: format!("{milli}m"), request: None }
    }

    #[test]
    fn the_latest_wish_of_each_container_counts_and_keeps_its_turn() {
        let shared = Shared::default();
        assert!(shared.push(&place("a"), resize(100)));
        assert!(shared.push(&place("b"), resize(200)));
        assert!(shared.push(&place("a"), resize(300)));
        let Next::Job(first, job) = shared.next() else { panic!("nothing to do") };
        assert_eq!((first, job), (place("a"), resize(300)));
        shared.push(&place("a"), resize(400));
        assert_eq!(shared.newer(&place("a")), Some(resize(400)));
        let Next::Job(second, _) = shared.next() else { panic!("nothing to do") };
        assert_eq!(second, place("b"));
        assert!(matches!(shared.next(), Next::Wait));
    }

    #[test]
    fn a_container_has_one_request_under_way() {
        let shared = Shared::default();
        let answer = || Answer { milli: None, result: Err(ApiError::Local(String::new())) };
        shared.push(&place("a"), resize(100));
        assert!(matches!(shared.next(), Next::Job(..)));
        shared.push(&place("a"), resize(200));
        shared.push(&place("b"), resize(300));
        let Next::Job(next, _) = shared.next() else { panic!("nothing to do") };
        assert_eq!(next, place("b"));
        assert!(matches!(shared.next(), Next::Wait), "the first is not answered");
        shared.put_answer(place("a"), answer());
        assert!(shared.answer(&place("a")).is_some());
        assert!(matches!(shared.next(), Next::Job(..)));
        // Nobody waits for it any more.
        shared.forget(&place("a"));
        shared.put_answer(place("a"), answer());
        assert!(shared.answer(&place("a")).is_none());
    }

    #[test]
    fn wishes_are_bounded_and_can_be_dropped() {
        let shared = Shared::default();
        for number in 0..JOBS_MAX {
            assert!(shared.push(&place(&number.to_string()), resize(1)));
        }
        assert!(!shared.push(&place("one too many"), resize(1)));
        assert!(shared.push(&place("0"), resize(2)));
        shared.forget(&place("0"));
        assert!(shared.push(&place("another"), resize(1)));
        assert_eq!(shared.newer(&place("0")), None);
    }

    #[test]
    fn waits_grow_and_are_bounded() {
        for attempt in 0..100 {
            let most = (BACKOFF_LEAST * (1 << attempt.min(10))).min(BACKOFF_MOST);
            let wait = backoff(attempt);
            assert!(wait >= most / 2 && wait <= most, "{attempt}: {wait:?}");
        }
    }
}
