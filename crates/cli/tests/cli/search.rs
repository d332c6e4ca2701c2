//! Search: built, served and loaded.

use seawall_search::index::{self, Layout};

use crate::support::{Served, fail, succeed};

#[test]
fn an_index_is_served_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let texts: Vec<String> =
        (10..200).map(|n| format!("wall {n} keeps out sea {}", n % 7)).collect();
    index::build(folder.path(), &texts, &Layout::default(), |_| {}).unwrap();
    let path = folder.path().to_str().unwrap();
    for locks in ["plain", "larger"] {
        let setting = format!("search.engine.locks={locks}");
        let server = Served::start(&["search", path, "--set", &setting]);
        let words = format!("{path}/words.tsv");
        let address = server.address();
        let load = ["load", &address, "--workload", "search", "--words", &words, "--json"];
        let times = ["--rate", "200", "--warm-up", "100ms", "--time", "300ms", "--slo", "5s"];
        let result = succeed(&[&load[..], &times].concat()).json();
        assert_eq!(result["classes"][0]["name"], "search", "{result}");
        assert!(result["classes"][0]["goodput"].as_f64().unwrap() > 0.0, "{result}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    fail(&["serve", "search", path], &["has no index", "seawall-search build"]);
    fail(&["load", "127.0.0.1:1", "--workload", "search"], &["--words"]);
    let words = ["load", "127.0.0.1:1", "--workload", "search", "--words", "/none"];
    fail(&words, &["--words /none"]);
    fail(&["serve", "search", path, "--set", "search.engine.terms=0"], &["search.engine.terms"]);
}
