//! The dashboard and the alerts that are shipped: they ask for what is recorded, in words that
//! Prometheus understands.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use seawall_measure::names::{self, Kind};
use serde_json::Value;

use crate::support::{free_port, until};
use crate::watched::Watched;

fn shipped(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(shipped(file)).expect("it is shipped")
}

fn dashboard() -> Value {
    serde_json::from_str(&read("grafana/seawall.json")).expect("it is JSON")
}

/// All queries of the dashboard, with the titles of their panels.
fn queries() -> Vec<(String, String)> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| (title.clone(), target))
    });
    targets.map(|(title, target)| (title, target["expr"].as_str().unwrap().to_owned())).collect()
}

/// The metrics that a text names, series of histograms by the histogram's name.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let words = words.filter(|word| word.starts_with("seawall_"));
    let histograms = || names::ALL.iter().filter(|metric| metric.kind == Kind::Histogram);
    let base = |word: &str| {
        let series = |suffix: &&str| histograms().any(|it| word == format!("{}{suffix}", it.name));
        let suffix = ["_bucket", "_sum", "_count"].into_iter().find(|suffix| series(suffix));
        word[..word.len() - suffix.map_or(0, str::len)].to_owned()
    };
    words.map(base).collect()
}

#[test]
fn dashboard_and_alerts_name_what_is_recorded() {
    let rules = read("prometheus/seawall.rules.yml");
    let tests = read("prometheus/seawall.test.yml");
    let asked: Vec<_> = queries().into_iter().map(|(_, query)| query).collect();
    assert!(asked.len() > 40, "{} queries", asked.len());
    let metrics = asked.iter().chain([&rules, &tests]).flat_map(|text| named(text));
    for metric in metrics {
        let known = names::ALL.iter().any(|known| known.name == metric);
        assert!(known, "{metric} is not in names::ALL");
    }
}

/// What Grafana 10 and later need of a dashboard that is imported: its JSON model, as far as the
/// parts go that this one has.
#[test]
fn the_dashboard_has_what_grafana_needs() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36), "schema of Grafana 9 or later");
    assert!(dashboard["id"].is_null(), "an id would replace another dashboard");
    for text in ["title", "uid", "refresh"] {
        assert!(dashboard[text].as_str().is_some_and(|text| !text.is_empty()), "{text}");
    }
    assert!(dashboard["time"]["from"].is_string() && dashboard["time"]["to"].is_string());
    let variables: BTreeSet<_> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| {
            assert!(variable["type"].is_string() && variable["label"].is_string(), "{variable}");
            variable["name"].as_str().unwrap().to_owned()
        })
        .collect();
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
        let place = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(place[0] + place[2] <= 24 && place[3] > 0, "{title}: {place:?}");
        assert!(places.insert((place[1], place[0])), "{title} lies on another");
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["type"], "timeseries", "{title}");
        assert!(panel["description"].as_str().is_some_and(|it| !it.is_empty()), "{title}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
        let targets = panel["targets"].as_array().unwrap();
        let refs: BTreeSet<_> = targets.iter().map(|it| it["refId"].as_str().unwrap()).collect();
        assert_eq!(refs.len(), targets.len(), "{title}: two queries of one name");
        for target in targets {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            let query = target["expr"].as_str().unwrap();
            let used = query.split('$').skip(1).map(|rest| {
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap()
            });
            for variable in used.filter(|variable| *variable != "__rate_interval") {
                assert!(variables.contains(variable), "{title}: ${variable}");
            }
        }
    }
}

/// A Prometheus of its own, until it is dropped.
struct Prometheus {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Scrapes these often, under the shipped rules.
    fn start(targets: &[String]) -> Self {
        let program =
            std::env::var("SEAWALL_PROMETHEUS").expect("scripts/check-prometheus sets it");
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let rules = shipped("prometheus/seawall.rules.yml").canonicalize().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 500ms, evaluation_interval: 500ms }}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n\
             - job_name: seawall\n  \
               static_configs: [{{ targets: {targets:?} }}]\n",
            rules.display()
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let child = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Prometheus starts");
        let prometheus = Self { child, port, _folder: folder };
        until("Prometheus is ready", || prometheus.get("/-/ready").is_some());
        prometheus
    }

    /// The body of a page; nothing if it is not there.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        let (head, body) = reply.split_once("\r\n\r\n")?;
        head.split(' ').nth(1).filter(|status| *status != "404" && *status != "503")?;
        Some(body.to_owned())
    }

    /// What it answers to a query.
    fn ask(&self, query: &str) -> Value {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let reply = self.get(&format!("/api/v1/query?query={encoded}")).expect("it answers");
        serde_json::from_str(&reply).expect("it answers in JSON")
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs Prometheus: scripts/check-prometheus runs it"]
fn prometheus_answers_every_query_from_overloaded_servers() {
    // One that gives credits, and one whose clients know no better than to be refused.
    let servers = ["breakwater", "aimd"].map(|algorithm| {
        let service = ["synthetic", "--service=const:5ms", "--target-delay=20ms"];
        Watched::start(&[&["--algorithm", algorithm][..], &service].concat())
    });
    let prometheus = Prometheus::start(&servers.each_ref().map(|it| it.server.metrics()));
    for address in servers.each_ref().map(|it| it.server.address()) {
        std::thread::spawn(move || {
            let load = ["load", &address, "--rate=1000", "--warm-up=0s", "--time=30s", "--json"];
            crate::support::run(&load);
        });
    }
    until("requests are refused", || servers[1].value(&names::REFUSALS) > Some(100.0));
    let filled = |query: &str| {
        let filled = query.replace("$__rate_interval", "5s").replace("$slo", "0.02");
        filled.replace("$job", ".*").replace("$instance", ".*")
    };
    let has_data = |reply: &Value| {
        assert_eq!(reply["status"], "success", "{reply}");
        reply["data"]["result"].as_array().is_some_and(|series| !series.is_empty())
    };
    let shown: BTreeSet<_> = servers.iter().flat_map(|it| named(&it.scrape())).collect();
    let mut with_data = 0;
    for (title, query) in queries() {
        let query = filled(&query);
        if named(&query).iter().all(|metric| shown.contains(metric)) {
            until(&format!("{title}: {query}"), || has_data(&prometheus.ask(&query)));
            with_data += 1;
        } else {
            has_data(&prometheus.ask(&query)); // of the agent or of clients: understood
        }
    }
    assert!(with_data > 20, "{with_data} queries");
    until("every rule was evaluated", || {
        let rules = prometheus.get("/api/v1/rules").expect("it has rules");
        let rules: Value = serde_json::from_str(&rules).unwrap();
        let groups = rules["data"]["groups"].as_array().unwrap().iter();
        let mut all = groups.flat_map(|group| group["rules"].as_array().unwrap());
        all.all(|rule| rule["health"] == "ok")
    });
}
