//! The core stays free of std and of dependencies; only four crates contain unsafe code.

use crate::source::{Source, words};
use crate::tree::{self, File};
use crate::workspace::{self, Kind, Package};

const CORE: &str = "crates/control";

/// All that the core may depend on.
const CORE_USES: [&str; 2] = ["libm", "serde"];

/// Crates that share memory with the kernel, with other processes or with a JVM, and the locks.
const UNSAFE_ALLOWED: [&str; 4] = ["crates/abi/", "crates/jvm/", "crates/node/", "crates/sync/"];

fn check_core_dependencies(core: &Package) -> Vec<String> {
    core.dependencies
        .iter()
        .filter(|dependency| dependency.kind != Kind::Dev)
        .filter(|dependency| !CORE_USES.contains(&dependency.name.as_str()))
        .map(|dependency| {
            format!("{CORE} depends on {}; it may use {}", dependency.name, CORE_USES.join(", "))
        })
        .collect()
}

fn check_no_std(lib: &File) -> Vec<String> {
    let code = Source::parse(&lib.text).code;
    if code.lines().any(|line| line.trim() == "#![no_std]") {
        return Vec::new();
    }
    vec![format!(
        "{} lacks #![no_std], which is what keeps clocks and sockets out of the core",
        lib.path
    )]
}

fn check_unsafe(file: &File) -> Vec<String> {
    if UNSAFE_ALLOWED.iter().any(|folder| file.path.starts_with(folder)) {
        return Vec::new();
    }
    Source::parse(&file.text)
        .code
        .lines()
        .enumerate()
        .filter(|(_, line)| words(line).any(|(_, word)| word == "unsafe"))
        .map(|(index, _)| {
            format!("{}:{}: unsafe code, outside of abi, jvm, node, sync", file.path, index + 1)
        })
        .collect()
}

#[test]
fn the_core_depends_on_next_to_nothing() {
    let packages = workspace::packages();
    let core = packages.iter().find(|package| package.folder == CORE).expect("the core is there");
    tree::expect_none("dependencies of the core", &check_core_dependencies(core));
}

#[test]
fn the_core_has_no_std() {
    tree::expect_none("no_std", &check_no_std(&tree::read(&format!("{CORE}/src/lib.rs"))));
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    let complaints: Vec<_> = tree::rust_files().iter().flat_map(check_unsafe).collect();
    tree::expect_none("unsafe code", &complaints);
}

#[test]
fn a_new_dependency_of_the_core_is_named() {
    let core = Package::example(CORE)
        .with_external(Kind::Normal, "libm")
        .with_external(Kind::Dev, "proptest")
        .with_external(Kind::Normal, "tokio");
    assert_eq!(
        check_core_dependencies(&core),
        ["crates/control depends on tokio; it may use libm, serde"]
    );
}

#[test]
fn a_core_with_std_is_named() {
    let lib = File::example("crates/control/src/lib.rs", "//! #![no_std]\n// #![no_std]\n");
    assert_eq!(check_no_std(&lib).len(), 1);
    let lib = File::example("crates/control/src/lib.rs", "#![no_std]\n//! Core.\n");
    assert!(check_no_std(&lib).is_empty());
}

#[test]
fn unsafe_code_is_found_but_not_the_word() {
    let text = "// unsafe\n#![deny(unsafe_code)]\nlet why = \"unsafe\";\nunsafe { f() }\n";
    let found = check_unsafe(&File::example("crates/rpc/src/lib.rs", text));
    assert_eq!(found, ["crates/rpc/src/lib.rs:4: unsafe code, outside of abi, jvm, node, sync"]);
    assert!(check_unsafe(&File::example("crates/sync/src/lib.rs", text)).is_empty());
}
