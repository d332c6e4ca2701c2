//! Every crate inherits the lints, and says what it is and how it is licensed.

use crate::tree;
use crate::workspace::{self, Package};

fn check(package: &Package, manifest: &str) -> Vec<String> {
    let path = format!("{}/Cargo.toml", package.folder);
    let mut complaints = Vec::new();
    if !inherits_lints(manifest) {
        complaints.push(format!("{path}: add [lints] with workspace = true"));
    }
    if package.description.as_deref().is_none_or(str::is_empty) {
        complaints.push(format!("{path}: add a description"));
    }
    if package.license.as_deref().is_none_or(str::is_empty) {
        complaints.push(format!("{path}: add license.workspace = true"));
    }
    complaints
}

/// Whether the section `[lints]` says `workspace = true`. `cargo metadata` does not tell.
fn inherits_lints(manifest: &str) -> bool {
    let mut section = "";
    manifest.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).any(|line| {
        if line.starts_with('[') {
            section = line;
        }
        let setting: String = line.split_whitespace().collect();
        match section {
            "[lints]" => setting == "workspace=true",
            "" => setting == "lints.workspace=true",
            _ => false,
        }
    })
}

#[test]
fn manifests_are_complete() {
    let complaints: Vec<_> = workspace::packages()
        .iter()
        .flat_map(|package| {
            check(package, &tree::read(&format!("{}/Cargo.toml", package.folder)).text)
        })
        .collect();
    tree::expect_none("manifests", &complaints);
}

#[test]
fn an_empty_manifest_is_told_all_that_it_lacks() {
    let package = Package::example("crates/rpc");
    assert_eq!(
        check(&package, "[package]\nname = \"seawall-rpc\"\n"),
        [
            "crates/rpc/Cargo.toml: add [lints] with workspace = true",
            "crates/rpc/Cargo.toml: add a description",
            "crates/rpc/Cargo.toml: add license.workspace = true",
        ]
    );
}

#[test]
fn both_spellings_inherit_and_others_do_not() {
    assert!(inherits_lints("[lints]\n# as all\nworkspace = true # always\n"));
    assert!(inherits_lints("lints.workspace = true\n[package]\n"));
    for other in
        ["[lints]\nworkspace = false", "[package]\nworkspace = true", "#[lints]\n#workspace = true"]
    {
        assert!(!inherits_lints(other), "{other}");
    }
}
