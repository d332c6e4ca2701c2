//! What is wrong is named, with what would be right.

use seawall_control::admission::NAMES;

use crate::support::{fail, file, file_with, free_port, run_after};

fn serve(arguments: &[&str], expected: &[&str]) {
    // Where nothing is wrong after all, it would serve for ever.
    let wrong = [&["serve", "synthetic", "--listen", "127.0.0.1:0"], arguments].concat();
    fail(&wrong, expected);
}

fn load(arguments: &[&str], expected: &[&str]) {
    fail(&[&["load", "127.0.0.1:1"], arguments].concat(), expected);
}

#[test]
fn flags_of_serve() {
    serve(&["--algorithm", "tcp"], &["--algorithm", "'tcp'", &NAMES.join(", ")]);
    serve(&["--slo", "0s"], &["server.slo: 0s is out of range; allowed is 1us or more"]);
    serve(&["--slo", "2"], &["--slo", "no unit; add ns, us, ms, s or m"]);
    serve(&["--service", "pareto:1us"], &["--service", "`pareto`; allowed: const:MEAN, exp:MEAN"]);
    serve(&["--service", "lognormal:1us:9"], &["--service", "sigma is 9; allowed: 0 to 5"]);
    serve(&["--listen", "localhost"], &["--listen"]);
    serve(&["--pin", "100000"], &["core 100000", "nproc"]);
    serve(&["--memcached", "127.0.0.1:1"], &["--memcached"]);
}

#[test]
fn ranges() {
    let cases = [
        ("server.admission.breakwater.beta", "1.5", "1.5 is out of range; allowed is 0 to 1"),
        ("server.limits.sessions", "0", "0 is out of range; allowed is 1 to 16777216"),
        ("server.limits.hello_timeout", "0s", "0s is out of range; allowed is 1ms or more"),
        ("server.admission.algorithm", "tcp", "\"tcp\" is unknown; allowed is one of none, aimd"),
        ("kv.pipeline", "0", "0 is out of range; allowed is 1 to 65536"),
        ("kv.sweep_period", "1ms", "1ms is out of range; allowed is 1s to 1440m"),
    ];
    for (field, value, problem) in cases {
        let set = format!("{field}={value}");
        let expected = format!("error: {field}: {problem}");
        serve(&["--set", &set], &[&expected]);
        // What cannot be served is not printed as a configuration either.
        serve(&["--set", &set, "--print-config"], &[&expected]);
    }
    serve(&["--set", "kv.store.hash_power=27"], &["kv.store: `hash_power` is 27", "0 and 26"]);
}

#[test]
fn keys_and_types() {
    let unknown = ["unknown field `session`", "`sessions`", "in `server.limits`"];
    serve(&["--set", "server.limits.session=1"], &unknown);
    let wrong = ["invalid type: string \"many\"", "u32", "`server.limits.sessions`"];
    serve(&["--set", "server.limits.sessions=many"], &wrong);
    serve(&["--set", "synthetic.service=pareto"], &["`pareto`", "const:MEAN", "synthetic.service"]);
    serve(&["--set", "server"], &["--set server: write KEY=VALUE"]);
    let no_table = ["--set", "server.slo=1ms", "--set", "server.slo.x=1"];
    serve(&no_table, &["--set server.slo.x=1: slo is a value, it has no key x"]);
}

#[test]
fn files() {
    let broken = file_with("broken.toml", "[server]\nslo = \n");
    serve(&["--config", &broken], &[&broken, "line 2, column 7", "slo ="]);
    let unknown = file_with("unknown.toml", "[server]\nslo = \"2ms\"\nslow = 1\n");
    serve(&["--config", &unknown], &["line 3, column 1", "unknown field `slow`", "`slo`"]);
    let wrong = file_with("wrong.toml", "[server.limits]\nsessions = \"many\"\n");
    serve(&["--config", &wrong], &["line 2, column 12", "expected u32"]);
    let range = file_with("range.toml", "[server.admission.breakwater]\nbeta = 1.5\n");
    serve(&["--config", &range], &["server.admission.breakwater.beta: 1.5", "0 to 1"]);
    let missing = file("missing.toml");
    let missing = missing.to_str().unwrap();
    serve(&["--config", missing], &["cannot read the configuration", missing]);
}

#[test]
fn files_of_tls() {
    let (missing, empty) = (file("missing.pem"), file_with("empty.pem", ""));
    let missing = missing.to_str().unwrap();
    let set = |key: &str, file: &str| format!("server.tls.{key}={file}");
    let certificate = ["--set", &set("certificate", missing), "--set", &set("key", &empty)];
    serve(&certificate, &["server.tls.certificate: cannot read", missing]);
    let key = ["--set", &set("certificate", &empty), "--set", &set("key", missing)];
    serve(&key, &["server.tls.key: cannot read", missing]);
    let both = ["--set", &set("certificate", &empty), "--set", &set("key", &empty)];
    serve(&both, &[&empty, "no usable certificates"]);
    serve(&both[..2], &["missing field `key`", "server.tls"]);

    load(&["--tls-authorities", missing], &["--tls-authorities: cannot read", missing]);
    load(&["--tls-name", "example.org"], &["--tls-authorities"]);
    let half = ["--tls-authorities", &empty, "--tls-certificate", &empty];
    load(&half, &["--tls-key"]);
}

#[test]
fn flags_of_load() {
    load(&["--rate", "fast"], &["--rate", "load `fast`", "0.9x", "850k"]);
    load(&["--rate", "1s:5k"], &["--rate", "must begin at 0s"]);
    load(&["--rate", "0s:5k,1s"], &["--rate", "TIME:LOAD, such as 2s:0.9x"]);
    load(&["--rate", "0.5x"], &["--rate 0.5x", "--capacity"]);
    load(&["--rate", "1x", "--capacity", "0"], &["--capacity", "above 0 to 1000M"]);
    load(&["--sessions", "0"], &["--sessions", "1..=60000"]);
    load(&["--threads", "0"], &["--threads", "1..=256"]);
    load(&["--time", "0s"], &["--time is 0s; allowed: above 0s"]);
    load(&["--time", "1000000s"], &["--warm-up and --time", "allowed: up to 1440m"]);
    load(&["--slo", "0s"], &["--slo is 0s; allowed: above 0s"]);
    load(&["--deadline", "0s"], &["--deadline is 0s", "allowed: above 0s"]);
    load(&["--mix", "usr"], &["--mix", "--workload kv"]);
    load(&["--workload", "kv", "--mix", "2/uniform:9/const:5"], &["--mix", "gets is 2", "0 to 1"]);
    let many = ["--workload", "kv", "--mix", "1/uniform:100000001/const:5"];
    load(&many, &["--mix has 100000001 keys", "allowed: 1 to 100000000"]);
    load(&["--arrivals", "constant", "--threads", "2"], &["--arrivals constant", "--threads 1"]);
    load(&["--algorithm", "tcp"], &["--algorithm", &NAMES.join(", ")]);
    load(&["--set", "client.pending_max=0"], &["client.pending_max: 0", "1 to 1048576"]);
    load(&["--set", "server.slo=1ms"], &["unknown field `server`", "`client`"]);
}

#[test]
fn flags_of_demo() {
    fail(&["demo", "--algorithm", "none"], &["--algorithm", &NAMES[1..].join(", ")]);
    fail(&["demo", "--loads", "1,nan"], &["--loads", "'nan'", "0.01 to 20"]);
    fail(&["demo", "--loads", "-1"], &["--loads", "0.01 to 20"]);
    fail(&["demo", "--stretch", "0"], &["--stretch", "0.1 to 10"]);
    fail(&["demo", "--service", "web"], &["--service", "worker, lock, cpu, kv"]);
    fail(&["demo", "--sessions", "0"], &["--sessions", "1..=10000"]);
}

#[test]
fn more_sessions_than_open_files() {
    for command in [&["load", "127.0.0.1:1"][..], &["demo"]] {
        let said = run_after("ulimit -n 256", &[command, &["--sessions=250"]].concat());
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        for text in ["--sessions 250 takes 318 open files", "allows this process 256", "ulimit"] {
            assert!(said.stderr.contains(text), "{text}: {said:?}");
        }
    }
}

#[test]
fn the_log_filter() {
    fail(&["--log", "a=b=c", "serve", "kv"], &["--log a=b=c", "write a level such as info"]);
}

#[test]
fn servers_that_are_not_there() {
    let address = format!("127.0.0.1:{}", free_port());
    let nobody = format!("session 1 of 100: nobody listens at {address}");
    let start = format!("seawall serve synthetic --listen {address}");
    fail(&["load", &address], &[&nobody, &start]);
    fail(&["load", &address, "--workload", "kv"], &["nobody listens at", "seawall serve"]);
    for name in ["localhost", "..:7117", "127.0.0.1:port"] {
        let find = format!("cannot find the server {name}");
        fail(&["load", name], &[&find, "write HOST:PORT, such as 127.0.0.1:7117"]);
    }
}
