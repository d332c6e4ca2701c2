//! What is asked of the API server, and when it counts as done.

use std::fs;

use seawall_node::agent::actuator::kubernetes::Requests;
use seawall_node::agent::actuator::{Actuator, ActuatorError, Saved, Target, UNLIMITED};
use seawall_node::agent::state::State;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::server::{Asked, Reply};
use super::{Bench, eventually, list, pod, willing, with_pod};
use crate::fixtures::{POD, cgroupfs_pod, id};

const RESIZE: &str = "/api/v1/namespaces/shop/pods/cart-0/resize?fieldManager=seawall-node";

#[test]
fn a_resize_is_asked_for_seen_in_force_and_undone() {
    let mut bench = Bench::new(with_pod(willing));
    assert_eq!(bench.read(), 1_000);
    let saved = bench.kubernetes.save(&bench.target).unwrap();
    bench.apply(1_500);
    // Until the kubelet has done it, what was asked for is what it is taken to have.
    assert_eq!(bench.read(), 1_500);
    eventually(|| (!bench.server.patches().is_empty()).then_some(()));
    assert!(bench.kubernetes.settle(&bench.target).is_none());
    bench.kubelet(1_500);
    bench.settled().unwrap();
    assert_eq!(bench.read(), 1_500);

    let asked = bench.server.asked();
    let query = "fieldSelector=spec.nodeName%3Dworker-1&limit=100";
    assert_eq!(
        (asked[0].method.as_str(), asked[0].path.as_str()),
        ("GET", format!("/api/v1/pods?{query}").as_str())
    );
    let resize = &asked[1];
    assert_eq!((resize.method.as_str(), resize.path.as_str()), ("PATCH", RESIZE));
    assert_eq!(resize.token, "Bearer one");
    assert_eq!(resize.kind, "application/strategic-merge-patch+json");
    let resources = |limit: &str| {
        let resources = json!({ "limits": { "cpu": limit }, "requests": { "cpu": "250m" } });
        let container = json!({ "name": "cart", "resources": resources });
        json!({ "metadata": { "uid": POD }, "spec": { "containers": [container] } })
    };
    assert_eq!(resize.body, resources("1500m"));

    // As the watchdog does it: from what was written down, which holds no secret.
    let text = serde_json::to_string(&saved).unwrap();
    assert!(!text.contains("one"), "{text}");
    serde_json::from_str::<Saved>(&text).unwrap().restore().unwrap();
    assert_eq!(bench.server.patches().last().unwrap().body, resources("1"));
}

#[test]
fn a_token_that_is_rotated_is_read_again() {
    let mut bench = Bench::new(with_pod(willing));
    bench.read();
    fs::write(bench.server.folder.join("token"), "two\n").unwrap();
    bench.apply(1_100);
    eventually(|| (bench.server.patches().len() == 1).then_some(()));
    assert_eq!(bench.server.patches()[0].token, "Bearer two");
}

#[test]
fn of_many_wishes_the_latest_is_asked_for() {
    let (open, gate) = oneshot::channel();
    let mut gate = Some(gate);
    let mut bench = Bench::new(with_pod(move |asked| match gate.take() {
        Some(gate) => Reply::Gate(gate, pod("1100m").to_string()),
        None => willing(asked),
    }));
    bench.read();
    bench.apply(1_100);
    eventually(|| (bench.server.patches().len() == 1).then_some(()));
    for milli in [1_200, 1_300, 1_400] {
        bench.apply(milli);
    }
    open.send(()).unwrap();
    bench.kubelet(1_400);
    bench.settled().unwrap();
    let limits = bench.server.patches().into_iter().map(|asked| {
        let resources = &asked.body["spec"]["containers"][0]["resources"];
        resources["limits"]["cpu"].as_str().unwrap().to_owned()
    });
    assert_eq!(limits.collect::<Vec<_>>(), ["1100m", "1400m"]);
    // What was asked for before may be in force for a moment: nobody else has set it.
    bench.kubelet(1_100);
    assert_eq!(bench.read(), 1_400);
    // This, somebody else has.
    bench.kubelet(700);
    assert_eq!(bench.read(), 700);
}

#[test]
fn what_others_have_set_is_what_is_put_back() {
    let mut bench = Bench::new(with_pod(willing));
    bench.read();
    bench.kubelet(2_000);
    let Saved::Pod(saved) = bench.kubernetes.save(&bench.target).unwrap() else { panic!() };
    assert_eq!((saved.limit.as_str(), saved.request.as_deref()), ("2000m", Some("250m")));
}

#[test]
fn requests_follow_where_that_is_wanted() {
    let mut bench = Bench::with(with_pod(willing), |settings| settings.requests = Requests::Follow);
    bench.read();
    bench.apply(2_000);
    eventually(|| (bench.server.patches().len() == 1).then_some(()));
    let body = &bench.server.patches()[0].body;
    assert_eq!(body["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");
}

#[test]
fn a_pod_that_appears_later_is_listed_when_it_is_met() {
    let mut lists = 0;
    let mut bench = Bench::new(move |asked| match asked.path.starts_with("/api/v1/pods?") {
        true => {
            lists += 1;
            let pods = if lists == 1 { vec![] } else { vec![pod("1")] };
            Reply::Json(200, list(&pods))
        }
        false => willing(asked),
    });
    let error = bench.kubernetes.read(&bench.target).unwrap_err();
    assert!(matches!(error, ActuatorError::Pending(_)), "{error}");
    let amount = eventually(|| bench.kubernetes.read(&bench.target).ok());
    assert_eq!(amount, 1_000);
    assert_eq!(bench.server.asked().len(), 2);
}

#[test]
fn a_pod_that_nobody_lists_does_not_flood_the_server() {
    let mut bench = Bench::new(|_| Reply::Json(200, list(&[])));
    for _ in 0..10_000 {
        assert!(bench.kubernetes.read(&bench.target).is_err());
    }
    // One at first, one because it was met, and the next ones a second and more apart.
    eventually(|| (bench.server.asked().len() >= 2).then_some(()));
    let lists = bench.server.asked().len();
    assert!(lists < 100, "{lists}");
}

#[test]
fn a_list_goes_on_over_its_pages() {
    let first = json!({ "metadata": { "continue": "a+b" }, "items": [] }).to_string();
    let mut bench = Bench::new(move |asked| {
        Reply::Json(
            200,
            match asked.path.contains("&continue=a%2Bb") {
                true => list(&[pod("1")]),
                false => first.clone(),
            },
        )
    });
    assert_eq!(bench.read(), 1_000);
    assert_eq!(bench.server.asked().len(), 2);
}

#[test]
fn a_limit_that_is_about_to_change_is_waited_for() {
    // The pod says 1, as after a restoration, and the kubelet has not done it yet.
    let mut bench = Bench::new(with_pod(willing));
    bench.kubelet(1_800);
    let error = bench.kubernetes.read(&bench.target).unwrap_err().to_string();
    assert!(error.contains("says 1, and 1800m is in force"), "{error}");
    bench.kubelet(1_000);
    assert_eq!(bench.read(), 1_000);
}

#[test]
fn only_pods_with_a_bound_are_acted_on() {
    let mut bench = Bench::new(with_pod(willing));
    let file = bench.target.cpu.as_ref().unwrap().join("cpu.max");
    fs::write(file, "max 100000\n").unwrap();
    assert_eq!(bench.read(), UNLIMITED);
    let unit = bench.folder.path().join("system.slice/web.service");
    fs::create_dir_all(&unit).unwrap();
    let unit = Target { name: "web".to_owned(), cpu: Some(unit), ..Target::default() };
    let error = bench.kubernetes.read(&unit).unwrap_err().to_string();
    assert!(error.contains("resizes pods only"), "{error}");
}

#[test]
fn where_the_group_cannot_be_read_the_kubelet_tells() {
    let mut resized = false;
    let mut bench = Bench::new(with_pod(move |asked| {
        // The status lags behind: the resize's own answer has the old one.
        let milli = if resized { "1500m" } else { "1" };
        resized = true;
        let _ = asked;
        Reply::Json(200, pod(milli).to_string())
    }));
    let group = bench.target.cpu.clone().unwrap();
    fs::remove_file(group.join("cpu.max")).unwrap();
    assert_eq!(bench.read(), 1_000);
    bench.apply(1_500);
    bench.settled().unwrap();
    assert_eq!(bench.read(), 1_500);
    let asked = bench.server.asked();
    let methods: Vec<_> = asked.iter().map(|asked| asked.method.as_str()).collect();
    assert_eq!(methods, ["GET", "PATCH", "GET"]);
    assert_eq!(asked[2].path, "/api/v1/namespaces/shop/pods/cart-0");
}

#[test]
fn what_is_stopped_asks_for_nothing_more() {
    let mut bench = Bench::with(with_pod(willing), |settings| settings.requests_per_second = 1);
    bench.read();
    bench.apply(1_500);
    bench.kubernetes.stop();
    let before = bench.server.asked().len();
    bench.apply(1_600);
    assert_eq!(bench.server.asked().len(), before);
    assert!(bench.server.patches().len() <= 1);
}

#[test]
fn the_most_is_what_groups_around_the_pod_have() {
    let mut bench = Bench::new(with_pod(willing));
    let group = bench.target.cpu.clone().unwrap();
    // The pod's own group is the kubelet's to raise.
    fs::write(group.join("../cpu.max"), "100000 100000\n").unwrap();
    assert_eq!(bench.kubernetes.ceiling(&bench.target), None);
    fs::write(group.join("../../cpu.max"), "300000 100000\n").unwrap();
    let (most, _) = bench.kubernetes.ceiling(&bench.target).unwrap();
    assert_eq!(most, 3_000);
    assert_eq!(bench.kubernetes.least(&bench.target), 10);
}

/// Another pod, in whose group this target is.
fn second(bench: &Bench) -> Target {
    let group = cgroupfs_pod("burstable", OTHER, &id('b'));
    let cpu = bench.folder.path().join(group.trim_start_matches('/'));
    fs::create_dir_all(&cpu).unwrap();
    fs::write(cpu.join("cpu.max"), "100000 100000\n").unwrap();
    Target { name: "other".to_owned(), cpu: Some(cpu), ..Target::default() }
}

const OTHER: &str = "7c9f2d1e-1f7a-4a53-9c59-0d5b1f7a5b8c";

fn other() -> Value {
    let mut other = pod("1");
    other["metadata"]["name"] = json!("cart-1");
    other["metadata"]["uid"] = json!(OTHER);
    let id = format!("containerd://{}", id('b'));
    other["status"]["containerStatuses"][0]["containerID"] = json!(id);
    other
}

/// Lists two pods, and lets the first resize wait until somebody opens the gate.
fn gated(gate: oneshot::Receiver<()>) -> impl FnMut(&Asked) -> Reply + Send + 'static {
    let mut gate = Some(gate);
    move |asked| match gate.take_if(|_| asked.method == "PATCH") {
        Some(gate) => Reply::Gate(gate, pod("1100m").to_string()),
        None if asked.path.starts_with("/api/v1/pods?") => {
            Reply::Json(200, list(&[pod("1"), other()]))
        }
        None => Reply::Json(200, other().to_string()),
    }
}

#[test]
fn an_answer_that_does_not_come_holds_up_one_container() {
    let (open, gate) = oneshot::channel();
    let mut bench = Bench::new(gated(gate));
    let second = second(&bench);
    bench.read();
    bench.kubernetes.read(&second).unwrap();
    bench.apply(1_100);
    eventually(|| (bench.server.patches().len() == 1).then_some(()));
    bench.kubernetes.apply(&second, 1_200).unwrap();
    fs::write(second.cpu.as_ref().unwrap().join("cpu.max"), "120000 100000\n").unwrap();
    eventually(|| bench.kubernetes.settle(&second)).result.unwrap();
    assert!(bench.kubernetes.settle(&bench.target).is_none(), "it is not answered yet");
    open.send(()).unwrap();
    bench.kubelet(1_100);
    bench.settled().unwrap();
}

#[test]
fn containers_are_put_back_side_by_side() {
    let (open, gate) = oneshot::channel();
    let (mut script, mut open) = (gated(gate), Some(open));
    let mut bench = Bench::new(move |asked| {
        // The first is answered when the second has come.
        if asked.method == "PATCH" && asked.path.contains("cart-1") {
            let _ = open.take().map(|open| open.send(()));
        }
        script(asked)
    });
    let second = second(&bench);
    let target = bench.target.clone();
    let mut state = State::open(&bench.folder.path().join("state")).unwrap();
    for target in [target, second] {
        let saved = bench.kubernetes.save(&target).unwrap();
        state.save([(target.name, vec![saved])]).unwrap();
    }
    let done = state.restore();
    assert_eq!((done.restored, done.failed.len()), (2, 0), "{done:?}");
    assert_eq!(bench.server.patches().len(), 2);
}

#[test]
fn another_pod_of_its_name_is_not_taken_for_it() {
    let mut bench = Bench::new(with_pod(|_| {
        let mut reborn = pod("1500m");
        reborn["metadata"]["uid"] = json!(OTHER);
        Reply::Json(200, reborn.to_string())
    }));
    bench.read();
    bench.apply(1_500);
    assert!(bench.settled().unwrap_err().is_gone());
}
