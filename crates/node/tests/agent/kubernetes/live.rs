//! A real API server, without a kubelet: `scripts/kube-apiserver cargo test -p seawall-node --test
//! agent -- --ignored --nocapture`. The test does what a kubelet would.

use std::fs;
use std::path::Path;
use std::process::Command;

use seawall_node::agent::actuator::kubernetes::Settings;
use seawall_node::agent::actuator::{Actuator, ActuatorError, Kubernetes, Saved, Target};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{eventually, open};
use crate::fixtures::{cgroupfs_pod, id};

const POD: &str = "/api/v1/namespaces/default/pods/cart-0";

/// An administrator, who uses another client than ours.
struct Admin {
    url: String,
    ca: String,
    token: String,
}

impl Admin {
    fn ask(&self, method: &str, path: &str, kind: &str, body: &Value) -> Value {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--http1.1", "--cacert", &self.ca, "-X", method])
            .args(["-H", &format!("Authorization: Bearer {}", self.token)])
            .arg(format!("{}{path}", self.url));
        if !body.is_null() {
            curl.args(["-H", &format!("Content-Type: {kind}"), "-d", &body.to_string()]);
        }
        let output = curl.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn create(&self, path: &str, body: &Value) -> Value {
        let made = self.ask("POST", path, "application/json", body);
        assert_ne!(made["kind"], "Status", "{made}");
        made
    }

    /// What a kubelet writes.
    fn status(&self, status: &Value) {
        let kind = "application/merge-patch+json";
        let body = json!({ "status": status });
        let patched = self.ask("PATCH", &format!("{POD}/status"), kind, &body);
        assert_eq!(patched["kind"], "Pod", "{patched}");
    }

    fn cpu(&self) -> (String, String) {
        let pod = self.ask("GET", POD, "application/json", &Value::Null);
        let resources = &pod["spec"]["containers"][0]["resources"];
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        (text(&resources["limits"]["cpu"]), text(&resources["requests"]["cpu"]))
    }

    /// The account of the agent, with the role of its manifest, and its token.
    fn agent(&self) -> String {
        let manifest =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes/node.yaml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let rules: Vec<Value> = ["pods]", "pods/resize]"]
            .into_iter()
            .map(|resource| {
                let line =
                    manifest.lines().find(|line| line.contains(&format!("resources: [{resource}")));
                let (_, verbs) = line.unwrap().split_once("verbs: [").unwrap();
                let verbs: Vec<&str> = verbs.split(']').next().unwrap().split(", ").collect();
                let resource = resource.trim_end_matches(']');
                json!({ "apiGroups": [""], "resources": [resource], "verbs": verbs })
            })
            .collect();
        println!("role of deploy/kubernetes/node.yaml: {}", Value::from(rules.clone()));
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let name = json!({ "name": "seawall-node" });
        let role = json!({ "metadata": name, "rules": rules });
        self.create(&format!("{rbac}/clusterroles"), &role);
        let account = "/api/v1/namespaces/default/serviceaccounts";
        self.create(account, &json!({ "metadata": name }));
        let subject =
            json!({ "kind": "ServiceAccount", "name": "seawall-node", "namespace": "default" });
        let role = json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "seawall-node",
        });
        let binding = json!({ "metadata": name, "subjects": [subject], "roleRef": role });
        self.create(&format!("{rbac}/clusterrolebindings"), &binding);
        let token = self.create(&format!("{account}/seawall-node/token"), &json!({ "spec": {} }));
        token["status"]["token"].as_str().unwrap().to_owned()
    }
}

fn resources(limit: &str) -> Value {
    json!({
        "limits": { "cpu": limit, "memory": "64Mi" },
        "requests": { "cpu": "250m", "memory": "64Mi" },
    })
}

/// What a kubelet says of itself: the server takes no resize for a node that it does not know.
fn create_node(admin: &Admin) {
    let capacity = json!({ "cpu": "8", "memory": "16Gi", "pods": "250" });
    let info = json!({
        "kubeletVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64",
        "bootID": "", "containerRuntimeVersion": "containerd://2.0.0", "kernelVersion": "6.1.0",
        "kubeProxyVersion": "", "machineID": "", "osImage": "", "systemUUID": "",
    });
    let status = json!({ "capacity": capacity, "allocatable": capacity, "nodeInfo": info });
    let node = json!({ "metadata": { "name": "worker-1" }, "status": status });
    admin.create("/api/v1/nodes", &node);
}

/// The pod's UID.
fn create_pod(admin: &Admin, name: &str) -> String {
    let container = json!({ "name": "cart", "image": "cart:1", "resources": resources("1") });
    let pod = admin.create(
        "/api/v1/namespaces/default/pods",
        &json!({
            "metadata": { "name": name },
            "spec": { "nodeName": "worker-1", "containers": [container] },
        }),
    );
    pod["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn running(limit: &str) -> Value {
    let container = json!({
        "name": "cart", "image": "cart:1", "imageID": "", "ready": true, "restartCount": 0,
        "containerID": format!("containerd://{}", id('a')), "resources": resources(limit),
    });
    json!({ "phase": "Running", "containerStatuses": [container] })
}

struct Bench {
    folder: TempDir,
    target: Target,
    kubernetes: Kubernetes,
}

impl Bench {
    fn resize(&mut self, milli: u32) -> Result<(), ActuatorError> {
        self.kubernetes.apply(&self.target, milli)?;
        eventually(|| self.kubernetes.settle(&self.target)).result.map(|took| {
            println!("resized to {milli}m: in force after {} ms", took.as_millis());
        })
    }

    fn kubelet(&self, milli: u32) {
        let file = self.target.cpu.as_ref().unwrap().join("cpu.max");
        fs::write(file, format!("{} 100000\n", milli * 100)).unwrap();
    }
}

#[test]
#[ignore = "it needs the API server that scripts/kube-apiserver builds and runs"]
fn a_real_server_resizes_up_and_down_restores_and_refuses() {
    let Ok(url) = std::env::var("KUBE_API_URL") else {
        eprintln!("not tested: run it by scripts/kube-apiserver");
        return;
    };
    let variable = |name: &str| std::env::var(name).unwrap();
    let (ca, token) = (variable("KUBE_API_CA"), variable("KUBE_API_TOKEN"));
    let admin = Admin { url: url.clone(), ca: ca.clone(), token };
    let namespace = eventually(|| {
        let found =
            admin.ask("GET", "/api/v1/namespaces/default", "application/json", &Value::Null);
        (found["kind"] == "Namespace").then_some(found)
    });
    println!("namespace {}", namespace["metadata"]["name"]);
    create_node(&admin);
    let uid = create_pod(&admin, "cart-0");
    admin.status(&running("1"));

    let folder = tempfile::tempdir().unwrap();
    let with_token = |file: &str, token: &str| {
        let path = folder.path().join(file);
        fs::write(&path, token).unwrap();
        let (url, node) = (Some(url.clone()), Some("worker-1".to_owned()));
        Settings { url, node, ca: ca.clone().into(), token: path, ..Settings::default() }
    };
    let nobody = with_token("nobody", &variable("KUBE_API_TOKEN_NOBODY"));
    let error = open(&folder, &nobody).unwrap_err().to_string();
    println!("as nobody: {error}");
    assert!(error.contains("403") && error.contains("node.yaml"), "{error}");
    let error = open(&folder, &with_token("wrong", "wrong")).unwrap_err().to_string();
    println!("with a wrong token: {error}");
    assert!(error.contains("401"), "{error}");

    let group = cgroupfs_pod("burstable", &uid, &id('a'));
    let cpu = folder.path().join(group.trim_start_matches('/'));
    fs::create_dir_all(&cpu).unwrap();
    let target = Target { name: "cart".to_owned(), cpu: Some(cpu), ..Target::default() };
    let settings = with_token("token", &admin.agent());
    // Roles are learned by the server a moment later.
    let kubernetes = eventually(|| open(&folder, &settings).ok());
    let mut bench = Bench { folder, target, kubernetes };
    bench.kubelet(1_000);
    exercise(&admin, &mut bench, &settings);
}

fn exercise(admin: &Admin, bench: &mut Bench, settings: &Settings) {
    assert_eq!(bench.kubernetes.read(&bench.target).unwrap(), 1_000);
    let saved = bench.kubernetes.save(&bench.target).unwrap();
    for (milli, expected) in
        [(1_500, ("1500m", "250m")), (500, ("500m", "250m")), (200, ("200m", "199m"))]
    {
        bench.kubelet(milli);
        bench.resize(milli).unwrap();
        let has = admin.cpu();
        println!("the server has limit {} and request {}", has.0, has.1);
        assert_eq!((has.0.as_str(), has.1.as_str()), expected);
        assert_eq!(bench.kubernetes.read(&bench.target).unwrap(), milli);
    }

    // By the status alone, as where the group cannot be read.
    fs::remove_file(bench.target.cpu.as_ref().unwrap().join("cpu.max")).unwrap();
    admin.status(&running("900m"));
    bench.resize(900).unwrap();
    assert_eq!(bench.kubernetes.read(&bench.target).unwrap(), 900);
    bench.kubelet(900);

    // A limit that would end the pod's class is refused by the server: no request may exceed it.
    let Saved::Pod(mut wrong) = saved.clone() else { panic!("{saved:?}") };
    wrong.request = Some("2".to_owned());
    let error = Saved::Pod(wrong.clone()).restore().unwrap_err();
    println!("a request above the limit: {error}");
    assert!(matches!(error, ActuatorError::Api { kind: "api_invalid", .. }), "{error}");

    let mut nobody = saved.clone();
    if let Saved::Pod(resize) = &mut nobody {
        resize.server.token = bench.folder.path().join("nobody");
    }
    let error = nobody.restore().unwrap_err();
    println!("a resize by nobody: {error}");
    assert!(matches!(error, ActuatorError::Api { kind: "api_forbidden", .. }), "{error}");

    // Another pod of that name: the UID is in the way.
    wrong.request.clone_from(&Some("250m".to_owned()));
    wrong.place.uid = "0f1b5ab5-9d8f-4a2c-a3f3-9b1c5a0c7f3e".to_owned();
    assert!(Saved::Pod(wrong).restore().unwrap_err().is_gone());
    assert_eq!(admin.cpu().0, "900m");

    saved.restore().unwrap();
    let has = admin.cpu();
    println!("restored: limit {} and request {}", has.0, has.1);
    assert_eq!(has, ("1".to_owned(), "250m".to_owned()));

    // Many pods come in pages.
    for number in 1..=120 {
        create_pod(admin, &format!("other-{number}"));
    }
    bench.kubelet(1_000);
    bench.kubernetes = open(&bench.folder, settings).unwrap();
    let read = eventually(|| bench.kubernetes.read(&bench.target).ok());
    assert_eq!(read, 1_000);

    let kind = "application/json";
    admin.ask("DELETE", POD, kind, &json!({ "gracePeriodSeconds": 0 }));
    let error = bench.resize(1_100).unwrap_err();
    println!("of a pod that was deleted: {error}");
    assert!(error.is_gone(), "{error}");
    assert!(saved.restore().unwrap_err().is_gone());
}
