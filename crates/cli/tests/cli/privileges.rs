//! What needs a permission or a feature that is not there says which, and `auto` does without.

use crate::support::{Nobody, succeed};

const SERVE: [&str; 7] = [
    "serve",
    "synthetic",
    "--listen",
    "127.0.0.1:0",
    "--until-stdin-ends",
    "--set",
    "server.threads.workers=2",
];

fn serve<'a>(way: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&SERVE[..], &["--set", way], more].concat()
}

#[test]
fn a_guardian_that_is_demanded_says_what_it_takes() {
    let takes = ["CAP_SYS_NICE", "RLIMIT_RTPRIO of 11", "ulimit -r", "guardian.way = \"off\""];
    Nobody::new().fails(&serve("server.guardian.way=patrol", &[]), &takes);
}

#[test]
fn auto_serves_without_a_guardian_that_is_not_permitted() {
    let arguments = serve("server.guardian.way=auto", &["--slo", "5s", "--log", "info"]);
    let server = Nobody::new().serves(&arguments);
    let load = ["load", &server.address(), "--rate", "100", "--time", "200ms", "--json"];
    assert!(succeed(&load).json()["throughput"].as_f64().is_some_and(|served| served > 0.0));
    let (_, said) = server.last_words();
    assert!(said.contains("no guardian") && said.contains("CAP_SYS_NICE"), "{said}");
}

#[cfg(not(feature = "node"))]
#[test]
fn a_build_without_ebpf_says_how_to_have_it() {
    use crate::support::fail;

    fail(&["node", "precision"], &["without `node`", "-p seawall-cli --features node"]);
    let kernel = serve("server.guardian.way=kernel", &[]);
    fail(&kernel, &["guardian.way = \"kernel\"", "feature node", "\"patrol\", or \"auto\""]);
}

#[cfg(feature = "node")]
#[test]
fn ebpf_that_is_not_permitted_names_the_capabilities() {
    let nobody = Nobody::new();
    let lacks = ["it lacks CAP_BPF, CAP_PERFMON", "run as root"];
    nobody.fails(&["node", "precision"], &[&lacks[..], &["CAP_SYSLOG"]].concat());
    let kernel = serve("server.guardian.way=kernel", &[]);
    let or_else = ["CAP_NET_ADMIN", "guardian.way = \"kernel\"", "\"patrol\", or \"auto\""];
    nobody.fails(&kernel, &[&lacks[..], &or_else].concat());
    let run_queues = serve("server.guardian.predictor=run-queues", &[]);
    let or_else = ["guardian.predictor = \"run-queues\"", "\"earlier-waits\" may be"];
    nobody.fails(&run_queues, &[&lacks[..], &or_else].concat());
}

#[cfg(not(feature = "search"))]
#[test]
fn a_build_without_an_application_says_how_to_have_it() {
    use crate::support::fail;

    fail(&["serve", "search", "corpus"], &["without `search`", "--features search"]);
    fail(&["serve", "serach", "corpus"], &["unrecognized subcommand 'serach'"]);
}
