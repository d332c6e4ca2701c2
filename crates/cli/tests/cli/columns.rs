//! Columns: made, served and loaded.

use seawall_columns::file;
use seawall_columns::series::Series;

use crate::support::{Served, fail, succeed};

#[test]
fn a_series_is_served_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("series.arrow");
    file::write(&path, &Series::generate(5_000, 1)).unwrap();
    let path = path.to_str().unwrap();
    for (semaphore, path_by) in [("none", "data"), ("try", "method"), ("wait", "data")] {
        let server = Served::start(&["columns", path, "--semaphore", semaphore]);
        let address = server.address();
        let load = ["load", &address, "--workload", "columns", "--json", "--slo", "5s"];
        let kinds = ["--large-share", "0.3", "--path-by", path_by];
        let times = ["--rate", "200", "--warm-up", "100ms", "--time", "300ms"];
        let result = succeed(&[&load[..], &kinds, &times].concat()).json();
        for (class, name) in ["max", "smooth"].into_iter().enumerate() {
            assert_eq!(result["classes"][class]["name"], name, "{result}");
            assert_eq!(result["classes"][class]["failed"], 0, "{result}");
            assert!(result["classes"][class]["goodput"].as_f64().unwrap() > 0.0, "{result}");
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.arrow");
    let path = path.to_str().unwrap();
    fail(&["serve", "columns", path], &["there is no series in", "seawall-columns build"]);
    fail(&["serve", "columns", path, "--semaphore", "maybe"], &["none, try, wait"]);
    let load = ["load", "127.0.0.1:1", "--workload", "columns"];
    fail(&[&load[..], &["--large-share", "2"]].concat(), &["--large-share is 2"]);
}
