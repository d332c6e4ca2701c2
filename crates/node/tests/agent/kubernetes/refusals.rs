//! What the API server may say instead of yes, and what follows.

use std::fs;
use std::time::Duration;

use seawall_node::agent::actuator::{Actuator, ActuatorError};
use serde_json::json;

use super::server::{Reply, Server, babble};
use super::{Bench, failure, list, open, pod, settings, willing, with_pod};

fn kind(error: &ActuatorError) -> &'static str {
    match error {
        ActuatorError::Api { kind, .. } => kind,
        other => panic!("{other}"),
    }
}

#[test]
fn what_will_not_change_is_not_asked_again() {
    for (code, message, expected) in [
        (401, "Unauthorized", "api_unauthorized"),
        (403, "pods \"cart-0\" is forbidden: exceeded quota", "api_forbidden"),
        (409, "the object has been modified", "api_conflict"),
        (422, "Pod \"cart-0\" is invalid: Pod QOS Class may not change", "api_invalid"),
    ] {
        let mut bench = Bench::new(with_pod(move |_| failure(code, message)));
        bench.read();
        bench.apply(1_500);
        let error = bench.refusal();
        assert_eq!(kind(&error), expected);
        assert!(error.to_string().contains(&format!("{code}: {message}")), "{error}");
        assert_eq!(bench.server.patches().len(), 1, "{code}");
        // It has what it had, and is left in peace for a while.
        assert_eq!(bench.read(), 1_000);
        let held = bench.kubernetes.apply(&bench.target, 1_500).unwrap_err();
        assert!(matches!(held, ActuatorError::Pending(_)), "{held}");
        assert!(held.to_string().contains(message), "{held}");
        assert_eq!(bench.server.patches().len(), 1, "{code}");
    }
}

#[test]
fn a_pod_that_has_gone_is_no_fault() {
    let mut bench = Bench::new(with_pod(|_| failure(404, "pods \"cart-0\" not found")));
    bench.read();
    let saved = bench.kubernetes.save(&bench.target).unwrap();
    bench.apply(1_500);
    assert!(bench.refusal().is_gone());
    assert!(saved.restore().unwrap_err().is_gone());
}

#[test]
fn a_server_without_time_is_asked_again() {
    let mut turn = 0;
    let mut bench = Bench::new(with_pod(move |asked| {
        turn += 1;
        match turn {
            1 => Reply::After(429, "0"),
            2 => failure(500, "etcdserver: request timed out"),
            3 => Reply::Close,
            4 => failure(503, "apiserver is shutting down"),
            _ => willing(asked),
        }
    }));
    bench.read();
    bench.apply(1_500);
    bench.kubelet(1_500);
    bench.settled().unwrap();
    // A connection that is lost is made again, and costs one attempt.
    assert!((5..=6).contains(&bench.server.patches().len()));
}

#[test]
fn a_server_that_stays_broken_is_given_up() {
    let script = with_pod(|_| failure(500, "no leader"));
    let mut bench = Bench::with(script, |settings| settings.retries_max = 2);
    bench.read();
    bench.apply(1_500);
    let error = bench.refusal();
    assert_eq!((kind(&error), bench.server.patches().len()), ("api_failed", 3));
}

#[test]
fn a_server_that_hangs_is_not_waited_for() {
    let mut bench = Bench::with(with_pod(|_| Reply::Hang), |settings| {
        settings.timeout = Duration::from_millis(100);
        settings.retries_max = 1;
    });
    bench.read();
    bench.apply(1_500);
    let error = bench.refusal();
    assert_eq!(kind(&error), "api_timeout");
    assert!(error.to_string().contains("within 100ms"), "{error}");
    assert_eq!(bench.server.patches().len(), 2);
}

#[test]
fn garbage_is_called_that() {
    let mut bench = Bench::new(with_pod(|_| Reply::Json(200, "<html>login</html>".to_owned())));
    bench.read();
    bench.apply(1_500);
    let error = bench.refusal();
    assert_eq!((kind(&error), bench.server.patches().len()), ("api_garbled", 1));
}

#[test]
fn what_the_kubelet_does_not_do_is_told_in_its_words() {
    let mut waiting = pod("1");
    waiting["status"]["conditions"] = json!([{
        "type": "PodResizePending",
        "status": "True",
        "reason": "Infeasible",
        "message": "Node didn't have enough capacity: cpu, requested: 9000, capacity: 8000",
    }]);
    let script = with_pod(move |_| Reply::Json(200, waiting.to_string()));
    let mut bench = Bench::with(script, |settings| settings.settle = Duration::from_secs(1));
    bench.read();
    bench.apply(1_500);
    let error = bench.refusal();
    assert_eq!(kind(&error), "api_not_in_force");
    assert!(error.to_string().contains("Infeasible: Node didn't have"), "{error}");
    assert_eq!(bench.read(), 1_000);
}

#[test]
fn another_pod_of_the_same_name_is_not_put_back() {
    let mut other = pod("1");
    other["metadata"]["uid"] = json!("1f7a5b8c-1f7a-4a53-9c59-0d5b7c9f2d1e");
    let mut bench = Bench::new(with_pod(move |asked| match asked.method.as_str() {
        "PATCH" => failure(422, "metadata.uid: field is immutable"),
        _ => Reply::Json(200, other.to_string()),
    }));
    bench.read();
    let saved = bench.kubernetes.save(&bench.target).unwrap();
    assert!(saved.restore().unwrap_err().is_gone());
}

#[test]
fn without_a_server_nothing_is_put_back_and_that_is_said() {
    let mut bench = Bench::new(with_pod(willing));
    bench.read();
    let saved = bench.kubernetes.save(&bench.target).unwrap();
    let Bench { server, mut kubernetes, folder, .. } = bench;
    kubernetes.stop();
    drop(server);
    let error = saved.restore().unwrap_err();
    assert_eq!(kind(&error), "api_unreachable");
    drop(folder);
}

#[test]
fn what_is_missing_at_first_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), |_| Reply::Json(200, list(&[])));
    let good = settings(&server);
    let problem = |change: &dyn Fn(&mut _)| {
        let mut settings = good.clone();
        settings.retries_max = 0;
        change(&mut settings);
        open(&folder, &settings).unwrap_err().to_string()
    };
    let other = tempfile::tempdir().unwrap();
    let _other = Server::start(other.path(), |_| Reply::Hang);
    let error = problem(&|settings| settings.ca = other.path().join("ca.crt"));
    assert!(error.contains("no TLS with 127.0.0.1") && error.contains("ertificate"), "{error}");
    let error = problem(&|settings| settings.token = folder.path().join("none"));
    assert!(error.contains("no token in"), "{error}");
    fs::write(folder.path().join("empty.crt"), "").unwrap();
    let error = problem(&|settings| settings.ca = folder.path().join("empty.crt"));
    assert!(error.contains("has no certificate"), "{error}");
    let error = problem(&|settings| settings.url = Some(format!("https://{}", babble())));
    assert!(error.contains("no TLS with"), "{error}");
    let error = problem(&|settings| settings.url = Some("https://127.0.0.1:1".to_owned()));
    assert!(error.contains("cannot list the pods of worker-1"), "{error}");
    assert!(error.contains("no connection to 127.0.0.1:1"), "{error}");
    // Neither in a pod nor told where the server is.
    let error = problem(&|settings| settings.url = None);
    assert!(error.contains("actuator.kubernetes.url"), "{error}");
}
