//! Envoy's configuration: adaptive concurrency before one upstream.
//!
//! The documentation's example (Envoy, "Adaptive Concurrency", example configuration), or what a
//! user sets who has read the rest of that page: the minimum round trip is known, so that it is not
//! probed for at the price of refusals; the buffer is as large as an SLO of fifty service times
//! allows; and each path that the workload shows has a limit of its own, since one filter can be
//! turned off by route.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::serve::Protocol;

const TYPE: &str = "type.googleapis.com/envoy.";

/// Paths with a filter of their own, when it is tuned: those of HTTP and the methods of gRPC.
const HOT: [&str; 2] = ["/hot", "/peers.Work/Hot"];

/// The configuration as JSON, which Envoy reads as well as YAML.
pub fn config(listen: SocketAddr, upstream: SocketAddr, protocol: Protocol, tuned: bool) -> Value {
    let filters = match tuned {
        false => vec![concurrency("all", &example())],
        true => vec![concurrency("hot", &informed()), concurrency("others", &informed())],
    };
    let router = typed("extensions.filters.http.router.v3.Router");
    let router = json!({ "name": "router", "typed_config": router });
    let manager = "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let mut manager = typed(manager);
    manager["stat_prefix"] = "peers".into();
    manager["codec_type"] = "AUTO".into();
    manager["http_filters"] = filters.into_iter().chain([router]).collect();
    manager["route_config"]["virtual_hosts"] =
        json!([{ "name": "all", "domains": ["*"], "routes": routes(tuned) }]);
    json!({
        "static_resources": {
            "listeners": [{
                "address": address(listen),
                "filter_chains": [{ "filters": [{ "name": "http", "typed_config": manager }] }],
            }],
            "clusters": [cluster(upstream, protocol)],
        },
    })
}

fn routes(tuned: bool) -> Value {
    let route = |paths: Value, without: Option<&str>| {
        let mut route = json!({ "match": paths, "route": { "cluster": "server" } });
        if let Some(without) = without {
            let mut off = typed("config.route.v3.FilterConfig");
            off["disabled"] = true.into();
            route["typed_per_filter_config"][without] = off;
        }
        route
    };
    let all = json!({ "prefix": "/" });
    if !tuned {
        return json!([route(all, None)]);
    }
    let hot = HOT.map(|path| route(json!({ "path": path }), Some("others")));
    hot.into_iter().chain([route(all, Some("hot"))]).collect()
}

fn example() -> Value {
    json!({
        "sample_aggregate_percentile": { "value": 90 },
        "concurrency_limit_params": { "concurrency_update_interval": "0.1s" },
        "min_rtt_calc_params": {
            "jitter": { "value": 10 }, "interval": "60s", "request_count": 50,
        },
    })
}

fn informed() -> Value {
    json!({
        "sample_aggregate_percentile": { "value": 50 },
        "concurrency_limit_params": { "concurrency_update_interval": "0.1s" },
        "min_rtt_calc_params": { "fixed_value": "0.003s", "buffer": { "value": 100 } },
    })
}

fn concurrency(name: &str, gradient: &Value) -> Value {
    let mut config = typed("extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency");
    config["gradient_controller_config"] = gradient.clone();
    json!({ "name": name, "typed_config": config })
}

fn cluster(upstream: SocketAddr, protocol: Protocol) -> Value {
    let mut cluster = json!({
        "name": "server",
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": "server",
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address(upstream) } }] }],
        },
    });
    if protocol == Protocol::Grpc {
        let mut options = typed("extensions.upstreams.http.v3.HttpProtocolOptions");
        options["explicit_http_config"]["http2_protocol_options"] = json!({});
        let key = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        cluster["typed_extension_protocol_options"][key] = options;
    }
    cluster
}

fn typed(name: &str) -> Value {
    json!({ "@type": format!("{TYPE}{name}") })
}

fn address(address: SocketAddr) -> Value {
    let (ip, port) = (address.ip().to_string(), address.port());
    json!({ "socket_address": { "address": ip, "port_value": port } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuned_means_a_filter_for_each_path() {
        let (listen, upstream) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        let manager = |tuned| {
            let config = config(listen, upstream, Protocol::Grpc, tuned);
            let filters = &config["static_resources"]["listeners"][0]["filter_chains"][0];
            filters["filters"][0]["typed_config"].clone()
        };
        let names = |manager: &Value| -> Vec<String> {
            let filters = manager["http_filters"].as_array().unwrap();
            filters.iter().map(|filter| filter["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&manager(false)), ["all", "router"]);
        let tuned = manager(true);
        assert_eq!(names(&tuned), ["hot", "others", "router"]);
        let routes = &tuned["route_config"]["virtual_hosts"][0]["routes"];
        assert_eq!(routes[0]["typed_per_filter_config"]["others"]["disabled"], true);
        assert_eq!(routes[2]["typed_per_filter_config"]["hot"]["disabled"], true);
    }
}
