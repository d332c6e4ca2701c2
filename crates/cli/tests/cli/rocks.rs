//! RocksDB: built, served and loaded.

use seawall_rocks::data::{self, Counts};

use crate::support::{Served, fail, succeed};

const TIMES: [&str; 8] =
    ["--rate", "200", "--warm-up", "100ms", "--time", "300ms", "--sessions", "10"];

#[test]
fn a_store_is_served_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    data::build(folder.path(), Counts { small: 100, large: 3 }, |_| {}).unwrap();
    let path = folder.path().to_str().unwrap();
    for (semaphore, path_by) in [("none", "method"), ("try", "data"), ("wait", "method")] {
        let server = Served::start(&["rocks", path, "--semaphore", semaphore]);
        let address = server.address();
        let load = ["load", &address, "--workload", "rocks", "--keys", "100:3", "--json"];
        let kinds = ["--large-share", "0.3", "--path-by", path_by, "--slo", "5s"];
        let result = succeed(&[&load[..], &kinds, &TIMES].concat()).json();
        for (class, name) in ["small", "large"].into_iter().enumerate() {
            assert_eq!(result["classes"][class]["name"], name, "{result}");
            assert!(result["classes"][class]["goodput"].as_f64().unwrap() > 0.0, "{result}");
        }
        assert_eq!(result["hit_share"], 1.0, "{result}");
    }
}

#[test]
fn keys_that_are_not_there_are_told() {
    let folder = tempfile::tempdir().unwrap();
    data::build(folder.path(), Counts { small: 10, large: 1 }, |_| {}).unwrap();
    let server = Served::start(&["rocks", folder.path().to_str().unwrap()]);
    let address = server.address();
    let load = ["load", &address, "--workload", "rocks", "--keys", "1000:1000", "--json"];
    let result = succeed(&[&load[..], &TIMES].concat()).json();
    assert!(result["hit_share"].as_f64().unwrap() < 0.5, "{result}");
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    fail(&["serve", "rocks", path], &["there is no store in", "seawall-rocks build"]);
    fail(&["serve", "rocks", path, "--semaphore", "maybe"], &["none, try, wait"]);
    let setting = "rocks.store.large_bytes=0";
    fail(&["serve", "rocks", path, "--set", setting], &["rocks.store.large_bytes"]);
    let load = ["load", "127.0.0.1:1", "--workload", "rocks"];
    fail(&[&load[..], &["--keys", "7"]].concat(), &["SMALL:LARGE"]);
    fail(&[&load[..], &["--large-share", "2"]].concat(), &["--large-share is 2", "0 to 1"]);
    fail(&["load", "127.0.0.1:1", "--large-share", "0.1"], &["about rocks and columns"]);
}
