//! Help teaches: examples, and defaults.

use crate::support::{run, succeed};

const COMMANDS: [&[&str]; 7] = [
    &[],
    &["compare"],
    &["demo"],
    &["serve"],
    &["serve", "synthetic"],
    &["serve", "kv"],
    &["load"],
];

#[test]
fn every_help_has_examples() {
    for command in COMMANDS {
        for flag in ["-h", "--help"] {
            let help = succeed(&[command, &[flag]].concat()).stdout;
            assert!(help.contains("Usage: seawall"), "{command:?} {help}");
            assert!(help.contains("Examples:\n  seawall "), "{command:?} {help}");
            assert!(help.contains("[default: "), "{command:?} {help}");
            assert!(help.lines().all(|line| line.chars().count() <= 100), "{command:?} {help}");
        }
    }
}

#[test]
fn help_names_what_one_can_choose_from() {
    let help = succeed(&["serve", "--help"]).stdout;
    for name in seawall_control::admission::NAMES {
        assert!(help.contains(name), "{name}");
    }
    assert!(help.contains("synthetic") && help.contains("kv"), "{help}");
}

#[test]
fn help_of_load_speaks_of_its_own_configuration() {
    let help = succeed(&["load", "--help"]).stdout;
    assert!(help.contains("client.expiry=1ms"), "{help}");
    succeed(&["serve", "kv", "--print-config", "--set", "server.admission.client.expiry=1ms"]);
}

#[test]
fn the_version_is_the_packages() {
    let expected = concat!(" ", env!("CARGO_PKG_VERSION"), "\n");
    for command in COMMANDS {
        let version = succeed(&[command, &["--version"]].concat()).stdout;
        assert!(version.starts_with("seawall") && version.ends_with(expected), "{version}");
    }
}

#[test]
fn without_a_command_help_is_shown_and_it_fails() {
    for command in [&[][..], &["serve"]] {
        let said = run(command);
        assert_eq!(said.status.code(), Some(2), "{said:?}");
        assert!(said.stderr.contains("Examples:"), "{said:?}");
    }
}
