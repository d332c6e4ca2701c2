//! What `serve --print-config` prints is what `serve --config` reads.

use crate::support::{Served, file_with, succeed};

fn printed(arguments: &[&str]) -> String {
    succeed(&[&["serve", "--print-config"], arguments].concat()).stdout
}

#[test]
fn a_printed_configuration_reads_back() {
    let changes: [(&str, &[&str]); 2] = [
        ("synthetic", &["--service", "bimodal:10us:0.1:20", "--algorithm", "aimd"]),
        ("kv", &["--memcached", "127.0.0.1:0", "--locks", "try"]),
    ];
    for (service, changes) in changes {
        let common = ["--slo", "750us", "--set", "server.limits.sessions=77"];
        let text = printed(&[&[service][..], changes, &common].concat());
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["server"]["slo"].as_str(), Some("750us"));
        assert_eq!(table["server"]["limits"]["sessions"].as_integer(), Some(77));
        let file = file_with(&format!("{service}.toml"), &text);
        assert_eq!(printed(&[service, "--config", &file]), text, "{service}");
        // And it is one that can be served.
        let listen = ["serve", service, "--config", &file, "--listen", "127.0.0.1:0"];
        Served::start_exactly(&[&listen[..], &["--until-stdin-ends"]].concat());
    }
}

#[test]
fn both_services_read_each_others_file() {
    let file = file_with("both.toml", &printed(&["kv"]));
    printed(&["synthetic", "--config", &file]);
}

#[test]
fn flags_win_over_settings_and_settings_over_the_file() {
    let file = file_with("layers.toml", "[server]\nslo = '1ms'\nrtt = '1us'\nseed = 1\n");
    let text = printed(&[
        "synthetic",
        "--config",
        &file,
        "--set",
        "server.slo=2ms",
        "--set",
        "server.rtt=2us",
        "--slo",
        "3ms",
    ]);
    let server = &text.parse::<toml::Table>().unwrap()["server"];
    assert_eq!(server["slo"].as_str(), Some("3ms"), "a flag");
    assert_eq!(server["rtt"].as_str(), Some("2us"), "a setting");
    assert_eq!(server["seed"].as_integer(), Some(1), "the file");
}

#[test]
fn settings_count_before_and_after_the_service() {
    let before = ["serve", "--set", "server.seed=7", "--set", "server.rtt=5us", "synthetic"];
    let after = ["--set", "server.rtt=6us", "--print-config"];
    let text = succeed(&[&before[..], &after].concat()).stdout;
    let server = &text.parse::<toml::Table>().unwrap()["server"];
    assert_eq!(server["seed"].as_integer(), Some(7));
    assert_eq!(server["rtt"].as_str(), Some("6us"), "the last one counts");
}
