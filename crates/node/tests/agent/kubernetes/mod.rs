//! Resizes of pods: against a scripted API server, and in `live` against a real one.

mod agent;
mod live;
mod refusals;
mod resizes;
mod server;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use seawall_node::agent::actuator::kubernetes::{CannotResize, Settings};
use seawall_node::agent::actuator::{Actuator, ActuatorError, Kubernetes, Quota, Target};
use seawall_node::agent::hierarchy::{Hierarchy, Version};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixtures::{POD, cgroupfs_pod, id};
use server::{Asked, Reply, Server};

/// A machine that hangs is told apart from one that is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pod with one container that has this limit, and a request of a quarter of a CPU.
fn pod(limit: &str) -> Value {
    let resources = json!({
        "limits": { "cpu": limit, "memory": "64Mi" },
        "requests": { "cpu": "250m", "memory": "64Mi" },
    });
    json!({
        "metadata": { "name": "cart-0", "namespace": "shop", "uid": POD },
        "spec": {
            "nodeName": "worker-1",
            "containers": [{ "name": "cart", "resources": resources }],
        },
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "containerStatuses": [{
                "name": "cart",
                "containerID": format!("containerd://{}", id('a')),
                "resources": resources,
            }],
        },
    })
}

fn list(pods: &[Value]) -> String {
    json!({ "kind": "PodList", "metadata": { "resourceVersion": "7" }, "items": pods }).to_string()
}

/// What the server says when it refuses.
fn failure(code: u16, message: &str) -> Reply {
    let body = json!({ "kind": "Status", "status": "Failure", "message": message, "code": code });
    Reply::Json(code, body.to_string())
}

/// Answers lists with one pod, and the rest by a script.
fn with_pod(
    mut script: impl FnMut(&Asked) -> Reply + Send + 'static,
) -> impl FnMut(&Asked) -> Reply + Send + 'static {
    move |asked| match asked.path.starts_with("/api/v1/pods?") {
        true => Reply::Json(200, list(&[pod("1")])),
        false => script(asked),
    }
}

/// Takes every resize.
fn willing(asked: &Asked) -> Reply {
    let limit = asked.body["spec"]["containers"][0]["resources"]["limits"]["cpu"].as_str();
    Reply::Json(200, pod(limit.unwrap_or("1")).to_string())
}

fn settings(server: &Server) -> Settings {
    Settings {
        url: Some(format!("https://{}", server.address)),
        node: Some("worker-1".to_owned()),
        ca: server.folder.join("ca.crt"),
        token: server.folder.join("token"),
        requests_per_second: 1_000,
        ..Settings::default()
    }
}

/// A server, a group, and the actuator in between.
struct Bench {
    server: Server,
    kubernetes: Kubernetes,
    target: Target,
    folder: TempDir,
}

fn open(folder: &TempDir, settings: &Settings) -> Result<Kubernetes, CannotResize> {
    let mount = folder.path().to_owned();
    let hierarchy = Hierarchy { version: Version::V2, mount, root: "/".to_owned() };
    Kubernetes::open(settings, Quota::new(&hierarchy, None, 0.0), folder.path())
}

impl Bench {
    fn new(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        Self::with(script, |_| {})
    }

    fn with(
        script: impl FnMut(&Asked) -> Reply + Send + 'static,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), script);
        let mut settings = settings(&server);
        change(&mut settings);
        let group = cgroupfs_pod("burstable", POD, &id('a'));
        let cpu = folder.path().join(group.trim_start_matches('/'));
        fs::create_dir_all(&cpu).unwrap();
        let target = Target { name: "cart".to_owned(), cpu: Some(cpu), ..Target::default() };
        let kubernetes = open(&folder, &settings).unwrap();
        let bench = Self { server, kubernetes, target, folder };
        bench.kubelet(1_000);
        bench
    }

    /// What a kubelet does in the end.
    fn kubelet(&self, milli: u32) {
        let file = self.target.cpu.as_ref().unwrap().join("cpu.max");
        fs::write(file, format!("{} 100000\n", milli * 100)).unwrap();
    }

    fn read(&mut self) -> u32 {
        self.kubernetes.read(&self.target).unwrap()
    }

    fn apply(&mut self, milli: u32) {
        self.kubernetes.apply(&self.target, milli).unwrap();
    }

    /// What came of the last wish.
    fn settled(&mut self) -> Result<(), ActuatorError> {
        eventually(|| self.kubernetes.settle(&self.target)).result.map(drop)
    }

    /// Why it was in vain.
    fn refusal(&mut self) -> ActuatorError {
        self.settled().unwrap_err()
    }
}

/// Waits until there is something.
fn eventually<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing happens");
        thread::sleep(Duration::from_millis(1));
    }
}
