//! Pages with charts of one load.

use crate::support::{Served, fail, file, run_unread, succeed};

#[test]
fn a_load_has_a_page() {
    let server = Served::start(&["kv"]);
    let page = file("load.html");
    let path = page.to_str().unwrap();
    let said = succeed(&[
        "load",
        &server.address(),
        "--workload=kv",
        "--mix=0.5/uniform:100/const:9",
        "--rate=0s:100,150ms:400",
        "--sessions=4",
        "--warm-up=100ms",
        "--time=200ms",
        "--token=secret-of-the-page",
        "--html",
        path,
    ]);
    assert!(said.stderr.contains(&format!("page with charts: {path}")), "{said:?}");
    assert!(said.stdout.contains("goodput/s"), "{said:?}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    for text in ["Load 100 → 400/s", "get", "set", "all", "SLO 5.00 s", "--rate=0s:100,150ms:400"]
    {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(!page.contains("secret-of-the-page"));
}

#[test]
fn a_reader_that_has_had_enough_of_the_numbers_still_gets_the_page() {
    let server = Served::start(&["synthetic"]);
    let (page, address) = (file("unread.html"), server.address());
    let load = ["load", &address, "--rate=100", "--warm-up=0s", "--time=50ms", "--json", "--html"];
    let said = run_unread(&[&load[..], &[page.to_str().unwrap()]].concat());
    assert!(said.status.success() && !said.stderr.contains("error"), "{said:?}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("</html>"));
}

#[test]
fn a_page_that_cannot_be_written_is_named_before_anything_is_measured() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let nowhere = format!("{folder}/no/such/folder.html");
    for command in [&["load", "127.0.0.1:1"][..], &["demo"]] {
        let html = [command, &["--html", folder]].concat();
        fail(&html, &["cannot write", folder, "it is a folder"]);
        fail(&[command, &["--html", &nowhere]].concat(), &[&nowhere, "does not exist"]);
    }
}
