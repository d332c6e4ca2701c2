//! Graphs as services of this process, over real connections.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::{Counters, Orders, Reader};
use seawall_graph::cpu::CpuKind;
use seawall_graph::{JOB, Service, ServiceConfig, StartError};
use seawall_measure::Graph;
use seawall_measure::graph::NAMES;
use seawall_rpc::{CallError, Client, ClientConfig, Request, clock};

/// A whole graph.
struct Running {
    services: BTreeMap<String, Service>,
    client: Client,
}

impl Running {
    fn start(graph: &Graph, pages: &Path, kind: CpuKind) -> Self {
        let mut services = BTreeMap::new();
        let mut peers = BTreeMap::new();
        let mut order: Vec<&str> = graph.services.iter().map(|service| &*service.name).collect();
        // Whoever is called stands before who calls.
        order.sort_by_key(|name| std::cmp::Reverse(graph.depth(name)));
        for name in order {
            let mut config = ServiceConfig::new(graph.clone(), name);
            config.peers = BTreeMap::clone(&peers);
            config.pages = Some(pages.into());
            config.cpu.kind = kind;
            let service = Service::start(&config).unwrap();
            peers.insert(name.to_owned(), service.address());
            services.insert(name.to_owned(), service);
        }
        let client = Client::new([peers[&graph.entry().name]], ClientConfig::default());
        Self { services, client }
    }

    /// Sends so many jobs at once, and waits for all of them.
    async fn serve(&self, jobs: usize, hops: u16) -> Result<(), CallError> {
        let call = |_| {
            let mut request = Request::new(JOB, Bytes::new());
            request.upscale_hops = hops;
            request.start_time_ns = clock::realtime_ns();
            self.client.call(request)
        };
        join_all((0..jobs).map(call)).await.into_iter().try_for_each(|result| result.map(|_| ()))
    }

    fn counters(&self, service: &str) -> Counters {
        let path = self.services[service].page().unwrap();
        Reader::open(path).unwrap().counters().unwrap()
    }
}

#[tokio::test]
async fn every_graph_serves_jobs_from_end_to_end() {
    for name in NAMES {
        // A tenth of the work, all of the calls.
        let mut graph = Graph::named(name).unwrap().stretched(0.1);
        graph.services.iter_mut().for_each(|service| certain(&mut service.steps));
        for kind in [CpuKind::Virtual, CpuKind::Quota] {
            let pages = tempfile::tempdir().unwrap();
            let running = Running::start(&graph, pages.path(), kind);
            running.serve(20, 0).await.unwrap();
            for (service, visits) in graph.services.iter().zip(graph.visits()) {
                let counters = running.counters(&service.name);
                let expected = (20.0 * visits) as u64;
                assert_eq!(counters.requests, expected, "{name}: {}", service.name);
                assert_eq!((counters.in_flight, counters.unserved), (0, 0));
                let work = service.mean_work().as_nanos();
                assert!(work == 0 || counters.exec_ns > 0, "{name}: {}", service.name);
                let calls = !service.callees().is_empty();
                assert!(calls || counters.pool_wait_ns == 0, "{name}: {}", service.name);
                let first = service.name == graph.entry().name;
                assert!(first || counters.upstream_exec_ns > 0, "{name}: {}", service.name);
            }
        }
    }
}

/// Steps that may happen happen.
fn certain(steps: &mut [seawall_measure::graph::Step]) {
    for step in steps {
        step.chance = None;
        step.parallel.iter_mut().for_each(|branch| certain(branch));
    }
}

/// Two services, of which the second is the bottleneck.
fn two(pool: &str) -> Graph {
    Graph::read(&format!(
        "name = 'two'
        [[service]]
        name = 'front'
        units = 8
        steps = [{{ work = 'const:200us' }}, {{ call = 'back' }}]
        {pool}
        [[service]]
        name = 'back'
        units = 1
        steps = [{{ work = 'const:3ms' }}]"
    ))
    .unwrap()
}

/// SurgeGuard Fig. 5: with few connections the queue in front of a slow service stands at its
/// caller, and the slow one looks well.
#[tokio::test]
async fn few_connections_hide_who_is_slow() {
    let serve = async |pool| {
        let pages = tempfile::tempdir().unwrap();
        // Long work, beside which it counts for little how soon a busy machine wakes a thread.
        let graph = two(pool).stretched(10.0);
        let running = Running::start(&graph, pages.path(), CpuKind::Virtual);
        running.serve(16, 0).await.unwrap();
        (running.counters("front"), running.counters("back"))
    };
    let (front, back) = serve("pools = { back = 1 }").await;
    let buildup = |of: Counters| of.exec_ns as f64 / (of.exec_ns - of.pool_wait_ns) as f64;
    assert!(buildup(front) > 4.0, "{front:?}");
    let (open_front, open_back) = serve("").await;
    // Nobody waits there but for the connection to be made, and for the thread that sends.
    assert!(4 * open_front.pool_wait_ns < front.pool_wait_ns, "{open_front:?} {front:?}");
    // There the others wait in the service that is slow, in line for its only slot.
    assert!(open_back.exec_ns > 4 * back.exec_ns, "{open_back:?} {back:?}");
}

#[tokio::test]
async fn start_times_and_hints_travel_downstream() {
    let pages = tempfile::tempdir().unwrap();
    let graph = Graph::named("chain").unwrap().stretched(0.1);
    let running = Running::start(&graph, pages.path(), CpuKind::Virtual);
    running.serve(4, 2).await.unwrap();
    let counters = |index| running.counters(&format!("ping-{index}"));
    let hinted: Vec<u64> = (0..5).map(|index| counters(index).hinted).collect();
    assert_eq!(hinted, [4, 4, 0, 0, 0], "a hint loses one with each hop");
    let from_start: Vec<u64> = (0..5).map(|index| counters(index).time_from_start_ns).collect();
    assert!(from_start.is_sorted_by(|nearer, farther| nearer < farther), "{from_start:?}");

    // The second service is ordered to hint two hops.
    let page = running.services["ping-1"].page().unwrap();
    let heartbeat_ns = monotonic_ns();
    let orders = Orders { heartbeat_ns, lease_ns: 60_000_000_000, hint: 2, ..Orders::default() };
    Reader::open(page).unwrap().set_orders(&orders).unwrap();
    running.serve(4, 0).await.unwrap();
    let hinted: Vec<u64> = (0..5).map(|index| counters(index).hinted).collect();
    assert_eq!(hinted, [4, 4, 4, 4, 0]);
}

/// Work in slots beside a call is execution, as it would be on a CPU of its own.
#[tokio::test]
async fn work_beside_a_call_is_execution() {
    let graph = Graph::read(
        "name = 'fork'
        [[service]]
        name = 'front'
        units = 2
        steps = [{ parallel = [[{ work = 'const:20ms' }], [{ call = 'back' }]] }]
        [[service]]
        name = 'back'
        units = 1
        steps = [{ work = 'const:20ms' }]",
    );
    let pages = tempfile::tempdir().unwrap();
    let running = Running::start(&graph.unwrap(), pages.path(), CpuKind::Virtual);
    running.serve(1, 0).await.unwrap();
    let front = running.counters("front");
    assert!(front.exec_ns >= 20_000_000, "{front:?}");
}

/// The FirstResponder of the service itself boosts its virtual cores, with no agent but the one
/// that has said what is late.
#[tokio::test]
async fn a_late_job_is_served_faster() {
    let pages = tempfile::tempdir().unwrap();
    let running = Running::start(&two(""), pages.path(), CpuKind::Virtual);
    let page = Reader::open(running.services["back"].page().unwrap()).unwrap();
    let orders = Orders {
        heartbeat_ns: monotonic_ns(),
        lease_ns: 60_000_000_000,
        expected_time_from_start_ns: 1,
        freeze_ns: 30_000_000_000,
        boost_permille: 100_000,
        ..Orders::default()
    };
    page.set_orders(&orders).unwrap();
    running.serve(8, 0).await.unwrap();
    let state = page.service().unwrap();
    assert!(state.late == 8 && state.boosted_until_ns > orders.heartbeat_ns, "{state:?}");
    // In line for one slot they take 3, 6, … 24 ms without, and a hundredth of that with it.
    assert!(running.counters("back").exec_ns < 108_000_000);
}

#[tokio::test]
async fn a_job_fails_where_a_service_is_gone() {
    let pages = tempfile::tempdir().unwrap();
    let mut running = Running::start(&two(""), pages.path(), CpuKind::Virtual);
    running.serve(1, 0).await.unwrap();
    drop(running.services.remove("back"));
    let failed = running.serve(1, 0).await.unwrap_err();
    assert!(matches!(&failed, CallError::Failed { message, .. } if message.starts_with("back: ")));
    assert_eq!(running.counters("front").requests, 2, "it has answered, if with an error");
}

#[test]
fn what_is_missing_is_named() {
    let message = |config: &ServiceConfig| Service::start(config).unwrap_err().to_string();
    let config = ServiceConfig::new(two(""), "side");
    assert_eq!(message(&config), "graph two has no service side; it has front, back");
    let config = ServiceConfig::new(two(""), "front");
    assert_eq!(message(&config), "front calls back, and nobody said where that listens");
    let mut config = ServiceConfig::new(two(""), "back");
    config.cpu.quantum = Duration::from_micros(1);
    assert!(message(&config).contains("cpu.quantum"), "{}", message(&config));
    config.cpu.quantum = Duration::from_millis(1);
    config.pages = Some("/nowhere".into());
    assert!(matches!(Service::start(&config), Err(StartError::Page(_))));
}
