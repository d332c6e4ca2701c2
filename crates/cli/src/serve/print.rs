//! The configuration as a file, what is not set included.

use anyhow::Result;
use toml::{Table, Value};

use super::config::Config;

/// What can be set and is not by default: tables, and their options with an example each, which is
/// what they default to under an SLO of 2 ms if that is known. TOML cannot say that something is
/// unset, so these are printed as comments.
const EXAMPLES: [(&str, &[(&str, &str)]); 19] = [
    (
        "server",
        &[
            ("queues", "short"),
            ("target_delay", "2ms"),
            ("network_p99", "150us"),
            ("service_p99", "460us"),
        ],
    ),
    ("server.admission.client.retry", &[("patience", "100us")]),
    ("synthetic", &[("wait", "const:2ms"), ("block", "const:2ms")]),
    ("server.admission.breakwater", &[("target_delay", "800us"), ("drop_delay", "1600us")]),
    ("server.admission.aimd", &[("latency_target", "1ms")]),
    ("server.admission.envoy", &[("min_concurrency_limit", "3"), ("fixed_value", "1ms")]),
    (
        "server.admission.bbr",
        &[
            ("cpu_threshold", "0.9"),
            ("window", "5s"),
            ("buckets", "50"),
            ("cpu_interval", "250ms"),
            ("cool_off", "1s"),
            ("resolution", "1ms"),
        ],
    ),
    ("server.admission.codel", &[("target", "500us"), ("interval", "500us")]),
    ("server.admission.seda", &[("target", "1200us"), ("server_drop_delay", "2200us")]),
    ("server.admission.svalinn", &[("warm_up", "100us"), ("monitor", "1ms")]),
    ("server.admission.dagor", &[("overload_delay", "700us")]),
    ("server.admission.client", &[("expiry", "400us")]),
    ("server.page", &[("folder", "/run/seawall"), ("service", "shop"), ("grace", "2ms")]),
    ("server.spill", &[("token", "at least sixteen bytes")]),
    ("kv", &[("memcached", "127.0.0.1:11211")]),
    ("memory", &[("capacity", "4"), ("capacity_max", "16")]),
    ("metrics", &[("listen", "127.0.0.1:9117")]),
    (
        "server.tls",
        &[
            ("certificate", "server.pem"),
            ("key", "server.key"),
            ("client_authorities", "clients.pem"),
        ],
    ),
    (
        "server.spill.tls",
        &[
            ("authorities", "replicas.pem"),
            ("server_name", "replica.internal"),
            ("certificate", "server.pem"),
            ("key", "server.key"),
        ],
    ),
];

/// The text of a file that sets what `config` has, with the rest as comments.
pub(super) fn file(config: &Config) -> Result<String> {
    let text = toml::to_string_pretty(config)?;
    let set: Table = text.parse()?;
    let mut file = String::new();
    for line in text.lines() {
        file += &format!("{line}\n");
        let table = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        file += &table.map(|table| unset(&set, table)).unwrap_or_default();
    }
    for (table, _) in EXAMPLES.iter().filter(|(table, _)| find(&set, table).is_none()) {
        file += &format!("\n# [{table}]\n{}", unset(&set, table));
    }
    Ok(file)
}

/// Comments for what is not set in a table.
fn unset(set: &Table, table: &str) -> String {
    let examples = EXAMPLES.iter().filter(|(name, _)| *name == table).flat_map(|(_, lines)| *lines);
    let unset = examples.filter(|(key, _)| find(set, &format!("{table}.{key}")).is_none());
    let quoted = |value: &str| match value.parse::<f64>() {
        Ok(_) => value.to_owned(),
        Err(_) => format!("\"{value}\""),
    };
    unset.map(|(key, value)| format!("# {key} = {}\n", quoted(value))).collect()
}

/// What a key with dots is set to.
fn find<'a>(set: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        None => set.get(key),
        Some((head, rest)) => find(set.get(head)?.as_table()?, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> Config {
        let config: Config = toml::from_str(file).unwrap_or_else(|error| panic!("{error}: {file}"));
        config.validate().unwrap_or_else(|error| panic!("{error}: {file}"));
        config
    }

    /// Keys, with dots, that have no value.
    fn nulls(value: &serde_json::Value, key: &str) -> Vec<String> {
        match value {
            serde_json::Value::Null => vec![key.to_owned()],
            serde_json::Value::Object(fields) => {
                let inner = |(name, value)| nulls(value, format!("{key}.{name}").trim_matches('.'));
                fields.iter().flat_map(inner).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn every_comment_can_be_made_an_option() {
        let file = file(&Config::default()).unwrap();
        let (options, tls) = file.split_once("\n# [server.tls]\n").unwrap();
        let comments: Vec<&str> = options.lines().filter(|line| line.starts_with("# ")).collect();
        assert_eq!(comments.len(), 34, "{file}");
        for comment in comments {
            read(&options.replace(comment, &comment[2..]));
        }
        let all = file.replace("\n# ", "\n");
        assert_eq!(read(&all).server.tls.unwrap().key.to_str(), Some("server.key"));
        let (tls, spill) = tls.split_once("\n# [server.spill.tls]\n").unwrap();
        assert_eq!((tls.lines().count(), spill.lines().count()), (3, 4));
    }

    #[test]
    fn nothing_that_can_be_set_is_missing() {
        let config = Config::default();
        let unset = nulls(&serde_json::to_value(&config).unwrap(), "");
        assert!(unset.contains(&"kv.memcached".to_owned()), "{unset:?}");
        let all = read(&file(&config).unwrap().replace("\n# ", "\n"));
        let still_unset = nulls(&serde_json::to_value(&all).unwrap(), "");
        assert!(still_unset.is_empty(), "{still_unset:?}");
        // What is set is no comment any more.
        assert!(!file(&all).unwrap().contains('#'));
    }
}
