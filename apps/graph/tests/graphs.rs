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
        let pages = tempfile::tempdir().unwrap();
        for kind in [CpuKind::Virtual, CpuKind::Quota] {
            let running = Running::start(&graph, pages.path(), kind);
            running.serve(20, 0).await.unwrap();
            for (service, visits) in graph.services.iter().zip(graph.visits()) {
                let counters = running.counters(&service.name);
                let expected = (20.0 * visits) as u64;
                assert_eq!(counters.requests, expected, "{name}: {}", service.name);
                assert_eq!((counters.in_flight, counters.unserved), (0, 0));
                let work = service.mean_work().as_nanos();
                assert!(work == 0 || counters.exec_ns > 0, "{name}: {}", service.name);
                let is_pooled = !service.pools.is_empty();
                assert!(is_pooled || counters.pool_wait_ns == 0, "{name}: {}", service.name);
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
    let pages = tempfile::tempdir().unwrap();
    let serve = async |pool| {
        let running = Running::start(&two(pool), pages.path(), CpuKind::Virtual);
        running.serve(16, 0).await.unwrap();
        (running.counters("front"), running.counters("back"))
    };
    let (front, back) = serve("pools = { back = 1 }").await;
    let buildup = |of: Counters| of.exec_ns as f64 / (of.exec_ns - of.pool_wait_ns) as f64;
    assert!(buildup(front) > 4.0, "{front:?}");
    let (open_front, open_back) = serve("").await;
    assert!((buildup(open_front) - 1.0).abs() < 1e-9, "{open_front:?}");
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

#[tokio::test]
async fn a_job_fails_where_a_service_is_gone() {
    let pages = tempfile::tempdir().unwrap();
    let mut running = Running::start(&two(""), pages.path(), CpuKind::Virtual);
    running.serve(1, 0).await.unwrap();
    drop(running.services.remove("back"));
    let failed = running.serve(1, 0).await.unwrap_err();
    assert!(matches!(&failed, CallError::Failed { message, .. } if message.starts_with("back: ")));
    assert_eq!(running.counters("front").unserved, 1);
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
