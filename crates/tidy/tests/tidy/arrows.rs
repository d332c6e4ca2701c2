//! Crates depend on each other as the design says, and not otherwise.
//!
//! ```text
//!                 control                                 abi
//!                    ▲                                     ▲
//!                 measure                                  │
//!     ┌──────────┬───┴──────┬──────────┬─────────┬─────────┤
//!   sync        rpc       tower       sim      node       jvm (also on rpc)
//!     ▲          ▲
//!     └─ apps/* ─┘◄── lab ◄──          cli, benches/*, tidy (may use all)
//! ```

use crate::tree;
use crate::workspace::{self, Kind, Package};

/// What a crate may use of the workspace.
enum Uses {
    Only(&'static [&'static str]),
    All,
}

/// The arrows of the design. A crate that is not listed needs a reason first, and then a row.
const ARROWS: [(&str, Uses); 15] = [
    ("abi", Uses::Only(&[])),
    // A service of a graph reads the agent's orders for its virtual cores from its page.
    ("apps/*", Uses::Only(&["abi", "control", "measure", "rpc", "sync"])),
    ("benches/*", Uses::All),
    ("cli", Uses::All),
    ("control", Uses::Only(&[])),
    ("jvm", Uses::Only(&["control", "rpc", "abi"])),
    // What measures: it loads applications, and is no part of any.
    ("lab", Uses::Only(&["apps/*", "control", "measure", "rpc", "sync"])),
    ("measure", Uses::Only(&["control"])),
    ("node", Uses::Only(&["control", "measure", "abi"])),
    ("proxy", Uses::Only(&["abi", "control", "measure", "tower"])),
    ("rpc", Uses::Only(&["control", "measure", "abi"])),
    ("sim", Uses::Only(&["control", "measure"])),
    ("sync", Uses::Only(&["control"])),
    ("tidy", Uses::All),
    ("tower", Uses::Only(&["control", "measure", "abi"])),
];

fn check(packages: &[Package]) -> Vec<String> {
    packages.iter().flat_map(complaints_about).collect()
}

fn complaints_about(package: &Package) -> Vec<String> {
    let name = row_of(&package.folder);
    let Some((_, uses)) = ARROWS.iter().find(|(row, _)| *row == name) else {
        return vec![format!(
            "{} is not in the design; give it a row in crates/tidy/tests/tidy/arrows.rs",
            package.folder
        )];
    };
    let Uses::Only(allowed) = uses else { return Vec::new() };
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind != Kind::Dev)
        .filter_map(|dependency| dependency.folder.as_deref())
        .filter(|folder| !allowed.contains(&row_of(folder).as_str()))
        .map(|folder| {
            let allowed =
                if allowed.is_empty() { "no other crate".into() } else { allowed.join(", ") };
            format!("{} depends on {folder}; it may use {allowed}", package.folder)
        })
        .collect()
}

/// The row of [`ARROWS`] for a crate in `folder`.
fn row_of(folder: &str) -> String {
    match folder.split_once('/') {
        Some(("crates", name)) => name.into(),
        Some((group, _)) => format!("{group}/*"),
        None => folder.into(),
    }
}

#[test]
fn crates_follow_the_arrows() {
    tree::expect_none("dependencies between crates", &check(&workspace::packages()));
}

#[test]
fn an_arrow_that_is_not_in_the_design_is_named() {
    let measure = Package::example("crates/measure")
        .with_local(Kind::Normal, "crates/control")
        .with_local(Kind::Normal, "crates/rpc");
    assert_eq!(check(&[measure]), ["crates/measure depends on crates/rpc; it may use control"]);

    let control = Package::example("crates/control").with_local(Kind::Build, "apps/kv");
    assert_eq!(check(&[control]), ["crates/control depends on apps/kv; it may use no other crate"]);
}

#[test]
fn apps_do_not_use_each_other() {
    let search = Package::example("apps/search").with_local(Kind::Normal, "apps/kv");
    assert_eq!(
        check(&[search]),
        ["apps/search depends on apps/kv; it may use abi, control, measure, rpc, sync"]
    );
}

#[test]
fn a_crate_without_a_row_is_named() {
    let complaints = check(&[Package::example("crates/misc")]);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].starts_with("crates/misc is not in the design"));
}

#[test]
fn tests_may_use_themselves_with_features_and_the_command_may_use_all() {
    let control = Package::example("crates/control").with_local(Kind::Dev, "crates/control");
    let cli = Package::example("crates/cli").with_local(Kind::Normal, "apps/kv");
    assert!(check(&[control, cli]).is_empty());
}
