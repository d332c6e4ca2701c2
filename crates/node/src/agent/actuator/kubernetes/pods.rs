//! Pods as the API server lists them, and what is asked of it for one of their containers.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::api::{ApiError, Call, plain};
use super::config::Requests;
use super::quantity;

/// Pods in one answer.
const PAGE: u32 = 100;

/// Who it is that changes a pod, in the pod's own record of that.
const MANAGER: &str = "seawall-node";

/// What a resize is, in the words of the API: containers are told apart by their names.
pub(super) const PATCH: &str = "application/strategic-merge-patch+json";

/// The annotation of a pod that a file on the node defines. It holds the UID by which the kubelet
/// knows the pod, which is not the one that the API server shows.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) is_guaranteed: bool,
    /// The kubelet's name of a pod that a file on the node defines.
    pub(super) mirror: Option<String>,
    pub(super) containers: Vec<Container>,
    /// Why the kubelet has not done yet what it was asked for.
    pub(super) pending: Option<String>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) name: String,
    /// Its identifier without the name of its runtime, once it runs.
    pub(super) id: Option<String>,
    /// Where it stands in the pod: `containers` or `initContainers`.
    pub(super) list: List,
    /// Its limit and its request of CPU, as it was written.
    pub(super) limit: Option<String>,
    pub(super) request: Option<String>,
    /// Whether it is started anew for a change of its CPU.
    pub(super) is_restarted: bool,
    /// The limit that is in force, as the kubelet says.
    pub(super) in_force: Option<u32>,
}

/// A list of containers in a pod.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum List {
    /// Those that do the pod's work.
    Containers,
    /// Those that begin before; some go on beside the others.
    InitContainers,
}

impl List {
    fn word(self) -> &'static str {
        match self {
            Self::Containers => "containers",
            Self::InitContainers => "initContainers",
        }
    }
}

/// Where a container is, for the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID: another pod may get its name.
    pub uid: String,
    /// Where the container stands in the pod.
    pub list: List,
    /// Its name there.
    pub container: String,
}

impl Pod {
    pub(super) fn place(&self, container: &Container) -> Place {
        Place {
            namespace: self.namespace.clone(),
            pod: self.name.clone(),
            uid: self.uid.clone(),
            list: container.list,
            container: container.name.clone(),
        }
    }

    pub(super) fn container_with_id(&self, id: &str) -> Option<&Container> {
        self.containers.iter().find(|container| container.id.as_deref() == Some(id))
    }

    /// Why this container cannot be resized, if so.
    pub(super) fn obstacle(&self, container: &Container) -> Option<&'static str> {
        if self.mirror.is_some() {
            return Some("a file on the node defines its pod, which the API cannot change");
        }
        if container.is_restarted {
            return Some("its resizePolicy restarts it when its CPU changes");
        }
        match container.limit.as_deref().and_then(quantity::milli) {
            // Kubernetes lets limits be changed, and not be taken away again.
            None | Some(0) => Some("its pod sets no limits.cpu, and a new one could not be undone"),
            Some(_) => None,
        }
    }
}

impl Place {
    /// The resize of this container. A pod of the same name that is another one is left alone: the
    /// server refuses a change of the UID.
    pub(super) fn resize(&self, limit: &str, request: Option<&str>) -> Call {
        let mut resources = json!({ "limits": { "cpu": limit } });
        if let Some(request) = request {
            resources["requests"] = json!({ "cpu": request });
        }
        let containers = json!([{ "name": self.container, "resources": resources }]);
        let mut spec = serde_json::Map::new();
        spec.insert(self.list.word().to_owned(), containers);
        let body = json!({ "metadata": { "uid": self.uid }, "spec": spec });
        Call {
            method: hyper::Method::PATCH,
            path: format!("{}/resize?fieldManager={MANAGER}", self.path()),
            body: Some((PATCH, body.to_string().into_bytes())),
        }
    }

    pub(super) fn look(&self) -> Call {
        Call::get(self.path())
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.pod)
    }
}

/// The pods of a node, from where the page before has ended.
pub(super) fn list(node: &str, continued: Option<&str>) -> Call {
    let mut path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&limit={PAGE}");
    if let Some(token) = continued {
        path.push_str("&continue=");
        for byte in token.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    Call::get(path)
}

/// What a container's request is to be when its limit is to be `limit`, from what its pod said
/// before anybody changed it. None leaves it alone.
pub(super) fn request(
    requests: Requests,
    is_guaranteed: bool,
    before: (&str, Option<&str>),
    limit: u32,
) -> Option<String> {
    let limit_before = u64::from(quantity::milli(before.0)?.max(1));
    let text = before.1?;
    let request = quantity::milli(text)?;
    // In this class both are the same, so that a share is the limit itself.
    if is_guaranteed || requests == Requests::Follow {
        let share = u64::from(request) * u64::from(limit) / limit_before;
        return Some(quantity::text(share as u32));
    }
    // One below the limit, because limits that are requests may make a class of their own.
    let least = if request < limit || u64::from(request) == limit_before && request == limit {
        text.to_owned()
    } else {
        quantity::text(limit.saturating_sub(1))
    };
    Some(least)
}

/// A page of pods, and what leads to the next one.
pub(super) fn read_list(body: &[u8]) -> Result<(Vec<Pod>, Option<String>), ApiError> {
    let list: RawList = serde_json::from_slice(body).map_err(|error| garbled(&error))?;
    let pods = list.items.into_iter().filter(|pod| !pod.has_ended()).map(RawPod::read);
    let next = list.metadata.next.filter(|token| !token.is_empty());
    Ok((pods.collect::<Result<_, _>>()?, next))
}

/// One pod.
pub(super) fn read_pod(body: &[u8]) -> Result<Pod, ApiError> {
    serde_json::from_slice::<RawPod>(body).map_err(|error| garbled(&error))?.read()
}

fn garbled(error: &serde_json::Error) -> ApiError {
    ApiError::Garbled(plain(&error.to_string()))
}

/// Whether it is a name of Kubernetes: what is one can stand in a path.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    (1..=253).contains(&text.len()) && text.chars().all(is_plain) && !text.starts_with('.')
}

#[derive(Deserialize)]
struct RawList {
    metadata: RawListMetadata,
    // A list of pods always has it, so that another document is noticed.
    items: Vec<RawPod>,
}

#[derive(Deserialize)]
struct RawListMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct RawPod {
    metadata: RawMetadata,
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize)]
struct RawMetadata {
    name: String,
    namespace: String,
    uid: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    containers: Vec<RawContainer>,
    #[serde(default)]
    init_containers: Vec<RawContainer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainer {
    name: String,
    #[serde(default)]
    resources: RawResources,
    #[serde(default)]
    resize_policy: Vec<RawPolicy>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawResources {
    limits: BTreeMap<String, serde_json::Value>,
    requests: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPolicy {
    resource_name: String,
    restart_policy: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    phase: String,
    qos_class: String,
    conditions: Vec<RawCondition>,
    container_statuses: Vec<RawContainerStatus>,
    init_container_statuses: Vec<RawContainerStatus>,
}

#[derive(Deserialize)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct RawContainerStatus {
    name: String,
    #[serde(default, rename = "containerID")]
    id: Option<String>,
    #[serde(default)]
    resources: Option<RawResources>,
}

/// The API server writes texts; numbers are quantities, too.
fn cpu(of: &BTreeMap<String, serde_json::Value>) -> Option<String> {
    match of.get("cpu")? {
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

impl RawPod {
    fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    fn read(self) -> Result<Pod, ApiError> {
        let Self { metadata, spec, status } = self;
        for name in [&metadata.name, &metadata.namespace, &metadata.uid] {
            if !is_name(name) {
                return Err(ApiError::Garbled(format!("`{}` is no name", plain(name))));
            }
        }
        let mut containers = Vec::new();
        let lists = [
            (List::Containers, spec.containers, status.container_statuses),
            (List::InitContainers, spec.init_containers, status.init_container_statuses),
        ];
        for (list, specified, statuses) in lists {
            containers.extend(specified.into_iter().map(|container| {
                let status = statuses.iter().find(|status| status.name == container.name);
                container.read(list, status)
            }));
        }
        // Kubernetes 1.33 and later say here what becomes of a resize.
        let pending = status.conditions.iter().find(|condition| {
            condition.status == "True" && condition.kind.starts_with("PodResize")
        });
        let describe = |pending: &RawCondition| {
            let words = [&pending.kind, &pending.reason, &pending.message];
            let words = words.into_iter().filter(|word| !word.is_empty()).map(String::as_str);
            plain(&words.collect::<Vec<_>>().join(": "))
        };
        let mirror = metadata.annotations.and_then(|mut all| all.remove(MIRROR));
        Ok(Pod {
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            is_guaranteed: status.qos_class == "Guaranteed",
            mirror,
            containers,
            pending: pending.map(describe),
        })
    }
}

impl RawContainer {
    fn read(self, list: List, status: Option<&RawContainerStatus>) -> Container {
        let restarts = |policy: &RawPolicy| {
            policy.resource_name == "cpu" && policy.restart_policy != "NotRequired"
        };
        // `containerd://ID`
        let id =
            status.and_then(|status| Some(status.id.as_ref()?.rsplit_once("//")?.1.to_owned()));
        let in_force = status.and_then(|status| cpu(&status.resources.as_ref()?.limits));
        Container {
            list,
            id: id.filter(|id| !id.is_empty()),
            limit: cpu(&self.resources.limits),
            request: cpu(&self.resources.requests),
            is_restarted: self.resize_policy.iter().any(restarts),
            in_force: in_force.as_deref().and_then(quantity::milli),
            name: self.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Vec<Pod> {
        read_list(include_bytes!("pods.json")).unwrap().0
    }

    fn pod(name: &str) -> Pod {
        recorded().into_iter().find(|pod| pod.name == name).unwrap()
    }

    #[test]
    fn a_recorded_list_leads_from_identifiers_to_names() {
        let (pods, next) = read_list(include_bytes!("pods.json")).unwrap();
        // The one that has ended has no containers to resize.
        let names: Vec<_> = pods.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, ["cart-6d4f9c7b8-x2x7q", "static-proxy-worker-1", "batch-0"]);
        assert!(next.unwrap().starts_with("eyJ2IjoibWV0YS5rOHMuaW8vdjEi"));
        let cart = pod("cart-6d4f9c7b8-x2x7q");
        assert_eq!((cart.namespace.as_str(), cart.is_guaranteed), ("shop", false));
        let main = cart.container_with_id(&"a".repeat(64)).unwrap();
        assert_eq!((main.name.as_str(), main.list), ("cart", List::Containers));
        assert_eq!((main.limit.as_deref(), main.request.as_deref()), (Some("1"), Some("250m")));
        assert_eq!(main.in_force, Some(1_000));
        assert_eq!(cart.obstacle(main), None);
        let mesh = cart.container_with_id(&"b".repeat(64)).unwrap();
        assert_eq!((mesh.name.as_str(), mesh.list), ("mesh", List::InitContainers));
        assert_eq!(cart.container_with_id("pause"), None);
        assert!(cart.pending.unwrap().starts_with("PodResizePending: Deferred: Node didn't have"));
    }

    #[test]
    fn what_cannot_be_resized_is_said() {
        let cart = pod("cart-6d4f9c7b8-x2x7q");
        let obstacle = |pod: &Pod, name: &str| {
            let of = pod.containers.iter().find(|container| container.name == name);
            pod.obstacle(of.unwrap()).unwrap_or_default()
        };
        assert!(obstacle(&cart, "logs").contains("no limits.cpu"));
        assert!(obstacle(&cart, "old").contains("resizePolicy"));
        let proxy = pod("static-proxy-worker-1");
        assert_eq!(proxy.mirror.as_deref(), Some("4ae3cdd51c9a4d9ea4f1e9f3a0b1c2d3"));
        assert!(obstacle(&proxy, "proxy").contains("a file on the node"));
    }

    #[test]
    fn requests_stay_follow_or_give_way() {
        let keep =
            |text, limit| request(Requests::Keep, false, ("1", text), limit).unwrap_or_default();
        assert_eq!(keep(Some("250m"), 1_500), "250m");
        assert_eq!(keep(Some("0.25"), 300), "0.25");
        // It may not exceed the limit, nor make the pod Guaranteed.
        assert_eq!(keep(Some("250m"), 250), "249m");
        assert_eq!(keep(Some("250m"), 200), "199m");
        assert_eq!(keep(Some("1"), 1_000), "1");
        assert_eq!(keep(None, 500), "");
        let guaranteed = request(Requests::Keep, true, ("1", Some("1")), 1_700);
        assert_eq!(guaranteed.as_deref(), Some("1700m"));
        let follow = request(Requests::Follow, false, ("1", Some("250m")), 1_700);
        assert_eq!(follow.as_deref(), Some("425m"));
    }

    #[test]
    fn what_is_asked_for() {
        let cart = pod("cart-6d4f9c7b8-x2x7q");
        let place = cart.place(cart.container_with_id(&"b".repeat(64)).unwrap());
        let call = place.resize("300m", Some("100m"));
        assert_eq!(call.method, "PATCH");
        let path = "/api/v1/namespaces/shop/pods/cart-6d4f9c7b8-x2x7q/resize";
        assert_eq!(call.path, format!("{path}?fieldManager=seawall-node"));
        let (kind, body) = call.body.unwrap();
        assert_eq!(kind, "application/strategic-merge-patch+json");
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let container = json!({
            "name": "mesh",
            "resources": { "limits": { "cpu": "300m" }, "requests": { "cpu": "100m" } },
        });
        let uid = "0f1b5ab5-9d8f-4a2c-a3f3-9b1c5a0c7f3e";
        let spec = json!({ "initContainers": [container] });
        assert_eq!(body, json!({ "metadata": { "uid": uid }, "spec": spec }));
        let next = list("worker-1", Some("a+b="));
        let query = "fieldSelector=spec.nodeName%3Dworker-1&limit=100&continue=a%2Bb%3D";
        assert_eq!(next.path, format!("/api/v1/pods?{query}"));
    }

    #[test]
    fn other_documents_are_refused() {
        for body in ["", "<html>", "{}", r#"{"metadata":{},"items":[{}]}"#, "[]"] {
            assert!(matches!(read_list(body.as_bytes()), Err(ApiError::Garbled(_))), "{body}");
        }
        // A name that leads elsewhere.
        let text = include_str!("pods.json").replace("\"shop\"", "\"../secrets\"");
        let error = read_list(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("`../secrets` is no name"), "{error}");
    }
}
