//! Export of metrics, received and decoded as an OpenTelemetry collector does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric};
use prost::Message;
use seawall_measure::names;

use crate::support::{Served, fail, succeed, until};

/// What one POST said.
struct Post {
    path: String,
    headers: BTreeMap<String, String>,
    message: ExportMetricsServiceRequest,
}

/// A receiver of OTLP over HTTP on loopback, until the test ends.
struct Collector {
    address: String,
    posts: Arc<Mutex<Vec<Post>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let posts: Arc<Mutex<Vec<Post>>> = Arc::default();
        let received = posts.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let received = received.clone();
                thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some(post) = post(&mut stream) {
                        received.lock().unwrap().push(post);
                        let empty = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        stream.get_mut().write_all(empty).unwrap();
                    }
                });
            }
        });
        Self { address, posts }
    }

    fn count(&self) -> usize {
        self.posts.lock().unwrap().len()
    }

    /// The metrics of the newest message, by name.
    fn newest(&self) -> BTreeMap<String, Metric> {
        let posts = self.posts.lock().unwrap();
        let resource = &posts.last().unwrap().message.resource_metrics[0];
        let metrics = resource.scope_metrics[0].metrics.iter();
        metrics.map(|metric| (metric.name.clone(), metric.clone())).collect()
    }
}

/// The next request of a connection; nothing once it has ended.
fn post(stream: &mut BufReader<TcpStream>) -> Option<Post> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let path = lines[0].strip_prefix("POST ")?.strip_suffix(" HTTP/1.1")?.to_owned();
    let header = |line: &String| {
        let (name, value) = line.split_once(": ").expect("a header");
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let headers: BTreeMap<_, _> = lines[1..].iter().map(header).collect();
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let message = ExportMetricsServiceRequest::decode(&*body).expect("it is OTLP");
    Some(Post { path, headers, message })
}

/// The value of an attribute.
fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        other => panic!("{key} is {other:?}"),
    }
}

fn sum(metric: &Metric) -> f64 {
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality, AggregationTemporality::Cumulative as i32);
    let values = sum.data_points.iter().map(|point| match point.value {
        Some(Number::AsDouble(value)) => value,
        other => panic!("{other:?}"),
    });
    values.sum()
}

#[test]
fn a_collector_gets_what_the_endpoint_shows() {
    let collector = Collector::start();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.address),
        ("OTEL_SERVICE_NAME", "orders"),
        ("OTEL_RESOURCE_ATTRIBUTES", "host.name=here"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "50"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret"),
    ];
    // No listener of its own: the export is enough to record.
    let served = Served::start_in(&environment, &["synthetic", "--service=const:10us"]);
    let load = ["load", &served.address(), "--rate=200", "--warm-up=0s", "--time=300ms", "--json"];
    let summary = succeed(&load).json();
    let sent = summary["offered_count"].as_f64().unwrap();
    let requests = names::REQUESTS.otel_name();
    until("all requests are exported", || {
        collector.count() > 0
            && collector.newest().get(&requests).is_some_and(|metric| sum(metric) >= sent)
    });
    let all = collector.newest();
    let Some(Data::Histogram(times)) = &all["rpc.server.call.duration"].data else { panic!() };
    let counts: u64 = times.data_points.iter().map(|point| point.count).sum();
    assert_eq!(counts as f64, sum(&all[&requests]));
    for point in &times.data_points {
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
        assert_eq!(point.explicit_bounds, names::buckets());
        assert_eq!(text(&point.attributes, "rpc.system.name").as_deref(), Some("seawall"));
        let outcome = text(&point.attributes, "seawall.outcome").unwrap();
        let failed = text(&point.attributes, "error.type");
        assert_eq!(failed, (outcome != "done").then_some(outcome));
        assert!(point.start_time_unix_nano < point.time_unix_nano);
    }
    // Everything is in the vocabulary, under its other name.
    let known = |name: &String| names::ALL.iter().any(|metric| metric.otel_name() == *name);
    assert!(all.keys().all(known), "{:?}", all.keys());

    let before = collector.count();
    assert!(served.signalled(Signal::SIGTERM).success());
    assert!(collector.count() > before, "the last values are exported at the end");
    let posts = collector.posts.lock().unwrap();
    let post = posts.last().unwrap();
    assert_eq!(post.path, "/v1/metrics");
    assert_eq!(post.headers["content-type"], "application/x-protobuf");
    assert_eq!(post.headers["api-key"], "secret");
    let resource = post.message.resource_metrics[0].resource.as_ref().unwrap();
    assert_eq!(text(&resource.attributes, "service.name").as_deref(), Some("orders"));
    assert_eq!(text(&resource.attributes, "host.name").as_deref(), Some("here"));
}

#[test]
fn a_collector_that_is_not_there_stops_nobody() {
    let endpoint = ["--otlp-endpoint", "http://127.0.0.1:9", "synthetic"];
    let environment = [("OTEL_METRIC_EXPORT_INTERVAL", "20")];
    let served = Served::start_in(&environment, &endpoint);
    let load = ["load", &served.address(), "--rate=100", "--warm-up=0s", "--time=100ms", "--json"];
    assert!(succeed(&load).json()["offered_count"].as_f64() > Some(0.0));
    let (_, errors) = served.last_words();
    assert!(errors.contains("metrics were not exported"), "{errors}");
}

#[test]
fn an_endpoint_that_is_none_is_named() {
    let wrong = ["serve", "synthetic", "--listen", "127.0.0.1:0", "--otlp-endpoint", "a:4318"];
    fail(&wrong, &["a:4318/v1/metrics is no endpoint for OTLP", "http://HOST:4318"]);
}
