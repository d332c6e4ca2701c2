//! The proxy as its users start it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use nix::sys::signal::Signal;
use seawall_measure::names;
use serde_json::Value;

use crate::metrics::is_known;
use crate::support::{Served, fail, file, run_after, succeed, until};
use crate::watched::{ask, name_of};

/// A server that answers everything with this word, until the tests end.
fn upstream(word: &'static str) -> SocketAddr {
    upstream_with("200 OK", word)
}

/// The same with another status.
fn upstream_with(status: &'static str, word: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for tcp in listener.incoming() {
            thread::spawn(move || answer(tcp.unwrap(), status, word));
        }
    });
    address
}

fn answer(mut tcp: TcpStream, status: &str, word: &str) {
    let mut head = Vec::new();
    let mut byte = [0];
    while tcp.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", word.len());
            let _ = tcp.write_all((answer + word).as_bytes());
        }
    }
}

/// What a proxy answers.
fn get(proxy: &Served) -> String {
    ask(&proxy.address(), &["GET / HTTP/1.1", "Host: a.example"]).body
}

fn start(arguments: &[&str]) -> Served {
    let fixed = ["proxy", "--until-stdin-ends", "--listen", "127.0.0.1:0"];
    Served::start_exactly(&[&fixed, arguments].concat())
}

/// A file that sends everything to one upstream.
fn write(path: &Path, upstream: SocketAddr) {
    let text = format!("upstreams.default.replicas = [\"http://{upstream}\"]\n");
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_first_try_needs_no_file() {
    let upstream = format!("http://{}", upstream("hello"));
    let proxy = start(&["--upstream", &upstream]);
    assert_eq!(get(&proxy), "hello");
    assert_eq!(proxy.signalled(Signal::SIGTERM).code(), Some(0));
}

#[test]
fn a_file_that_changes_counts_and_one_that_is_wrong_does_not() {
    let path = file("proxy-reload.toml");
    write(&path, upstream("one"));
    let name = path.to_str().unwrap();
    let proxy = start(&[name, "--metrics", "127.0.0.1:0"]);
    assert_eq!(get(&proxy), "one");
    write(&path, upstream("two"));
    until("it is read again", || get(&proxy) == "two");
    std::fs::write(&path, "upstreams.default.replicas = []\n").unwrap();
    let scrape = || ask(&proxy.metrics(), &["GET /metrics HTTP/1.1", "Host: localhost"]).body;
    let refused = format!("{}{{result=\"refused\"}}", names::RELOADS.name);
    until("it is refused", || scrape().contains(&refused));
    assert_eq!(get(&proxy), "two", "the old one stays");
    write(&path, upstream("three"));
    proxy.tell(Signal::SIGHUP);
    until("it is read again", || get(&proxy) == "three");
    let (_, errors) = proxy.last_words();
    assert!(errors.contains("upstreams.default.replicas: there is none"), "{errors}");
}

#[test]
fn what_is_shown_is_what_counts_now() {
    let path = file("proxy-shown.toml");
    let replica = upstream("hello");
    let config = |mode: &str| {
        let text = format!(
            "mode = \"{mode}\"\nupstreams.shop.slo = \"200ms\"\n\
             upstreams.shop.replicas = [\"http://{replica}\"]\n"
        );
        std::fs::write(&path, text).unwrap();
    };
    config("observe");
    let proxy = start(&[path.to_str().unwrap(), "--metrics", "127.0.0.1:0"]);
    assert_eq!(get(&proxy), "hello");
    let url = format!("http://{}/", proxy.metrics());
    let once = ["top", &url, "--once", "--interval=200ms"];
    let top = || succeed(&[&once[..], &["--json"]].concat()).json();
    let about = |report: &Value, mode: &str| report["about"].as_str().unwrap().contains(mode);
    let first = top();
    assert!(about(&first, "observing: nothing is refused"), "{first}");
    assert_eq!((&first["would_refuse"], &first["would_refuse_share"]), (&0.0.into(), &0.0.into()));
    let upstream = &first["upstreams"][0];
    assert_eq!((&upstream["upstream"], &upstream["observes"]), (&"shop".into(), &true.into()));
    assert_eq!(upstream["slo_s"], 0.2);
    assert!(upstream["limit"].as_f64() >= Some(1.0), "{first}");
    let behind = &first["replicas"][0];
    assert_eq!(behind["replica"], format!("http://{replica}"));
    assert_eq!((&behind["is_well"], &behind["lost"]), (&true.into(), &Value::Null));
    let table = succeed(&once).stdout;
    for shown in ["served", "would refuse", "limit", "in, 0 waiting)", "replica", "answered"] {
        assert!(table.contains(shown), "{shown}: {table}");
    }
    for hidden in ["goodput", "sessions", "acquired", "queueing delay", "lost"] {
        assert!(!table.contains(hidden), "{hidden}: {table}");
    }
    config("enforce");
    until("it enforces", || about(&top(), "enforcing"));
    let now = top();
    assert_eq!(
        (&now["would_refuse"], &now["upstreams"][0]["observes"]),
        (&Value::Null, &false.into())
    );
}

#[test]
fn what_it_counts_is_in_the_vocabulary() {
    let upstream = format!("http://{}", upstream("hello"));
    let proxy = start(&["--upstream", &upstream, "--metrics", "127.0.0.1:0", "--enforce"]);
    for _ in 0..10 {
        assert_eq!(get(&proxy), "hello");
    }
    let scrape = || ask(&proxy.metrics(), &["GET /metrics HTTP/1.1", "Host: localhost"]).body;
    let served = format!("{}{{class=\"all else\"}} 10", names::COMPLETIONS.name);
    until("all are counted", || scrape().contains(&served));
    let text = scrape();
    let mut series = text.lines().filter(|line| name_of(line).is_some());
    assert!(series.all(is_known), "{text}");
    for metric in [
        names::REQUESTS,
        names::REQUEST,
        names::GATE_LIMIT,
        names::GATE_TAIL,
        names::ATTEMPTS,
        names::UPSTREAM_WELL,
        names::UPSTREAM_SLO,
        names::UPSTREAM_ENFORCES,
        names::PROXY_RESPONSES,
        names::CONNECTIONS_OPEN,
        names::OUTSTANDING,
        names::QUEUEING_DELAY,
    ] {
        assert!(text.contains(metric.name), "{}: {text}", metric.name);
    }
}

#[test]
fn check_says_what_would_run_and_what_of_it_is_there() {
    let path = file("proxy-check.toml");
    let one = upstream("one");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "listen = '127.0.0.1:0'\nmode = 'enforce'\n\
         upstreams.one = {{ replicas = ['http://{one}', 'http://{nobody}'], slo = '80ms' }}\n\
         [[routes]]\npath = '/api'\nmethods = ['GET']\n"
    );
    std::fs::write(&path, text).unwrap();
    let name = path.to_str().unwrap();
    let said = succeed(&["proxy", name, "--check"]).stdout;
    for expected in [
        "enforcing",
        "SLO 80ms",
        "route GET, any host, /api: one",
        &format!("http://{one} is there"),
        &format!("http://{nobody}: the connection was refused"),
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn the_environment_is_over_the_file_and_flags_are_over_both() {
    let path = file("proxy-environment.toml");
    write(&path, upstream("one"));
    let name = path.to_str().unwrap();
    let first = "export SEAWALL_PROXY__MODE=enforce SEAWALL_PROXY__LISTEN=127.0.0.1:1 \
                 SEAWALL_PROXY__UPSTREAMS__DEFAULT__SLO=70ms";
    let said = run_after(first, &["proxy", name, "--check", "--listen", "127.0.0.1:2"]);
    assert!(said.status.success(), "{said:?}");
    for expected in ["127.0.0.1:2", "enforcing", "SLO 70ms"] {
        assert!(said.stdout.contains(expected), "{expected}: {said:?}");
    }
    let said = run_after("export SEAWALL_PROXY__LIMITS__STREEMS=1", &["proxy", name, "--check"]);
    assert!(said.stderr.contains("streems") && said.stderr.contains("streams"), "{said:?}");
    assert!(said.stderr.contains("in SEAWALL_PROXY__LIMITS__STREEMS: "), "{said:?}");
    let last = "export SEAWALL_PROXY__LIMITS__STREAMS=7 SEAWALL_PROXY__UPSTREAMS__DEFAULT__SLOW=1s";
    let said = run_after(last, &["proxy", name, "--check"]);
    assert!(said.stderr.contains("in SEAWALL_PROXY__UPSTREAMS__DEFAULT__SLOW: "), "{said:?}");
    let one_underscore = "export SEAWALL_PROXY_UPSTREAMS_DEFAULT_SLO=70ms SEAWALL_PROXY_PORT=80";
    let said = run_after(one_underscore, &["proxy", name, "--check"]);
    assert!(said.status.success() && !said.stdout.contains("SLO"), "{said:?}");
    let warning = "the variable SEAWALL_PROXY_UPSTREAMS_DEFAULT_SLO sets nothing";
    assert!(said.stderr.contains(warning), "{said:?}");
    assert!(!said.stderr.contains("SEAWALL_PROXY_PORT"), "that is Kubernetes' own: {said:?}");
}

#[test]
fn the_configuration_that_counts_can_be_printed_and_read_again() {
    let path = file("proxy-printed.toml");
    let text = "mode = 'enforce'\ntrust.identities = [{ name = 'a', token = '0123456789abcdef' }]\n\
                [upstreams.shop]\nreplicas = ['http://127.0.0.1:1']\n\
                health.probe = { http = '/healthz' }\n\
                [[routes]]\npath = '/api'\nclass = 'api'\n";
    std::fs::write(&path, text).unwrap();
    let name = path.to_str().unwrap();
    let set = ["--set", "upstreams.shop.slo=70ms", "--listen", "127.0.0.1:2", "--print-config"];
    let printed = succeed(&[&["proxy", name], &set[..]].concat()).stdout;
    for expected in ["127.0.0.1:2", "enforce", "slo = \"70ms\"", "/healthz", "queue_max = 1024"] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    std::fs::write(&path, &printed).unwrap();
    assert_eq!(succeed(&["proxy", name, "--print-config"]).stdout, printed);
}

#[test]
fn check_asks_as_the_probe_does() {
    let sick = upstream_with("404 Not Found", "no");
    let set = "upstreams.default.health.probe={ http = \"/nothere\" }";
    let url = format!("http://{sick}");
    let arguments = ["proxy", "--listen", "127.0.0.1:0", "--upstream", &url, "--set", set];
    let said = succeed(&[&arguments[..], &["--check"]].concat());
    let expected = format!("{url}: GET /nothere said 404, so it would not count as well");
    assert!(said.stdout.contains(&expected), "{said:?}");
    assert!(said.stderr.contains("not all that it names is there now"), "{said:?}");
}

#[test]
fn who_fails_and_who_is_back_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let proxy = start(&["--upstream", &format!("http://{address}")]);
    for _ in 0..6 {
        let refused = "the service behind this proxy refused the connection";
        assert!(get(&proxy).contains(refused));
    }
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for tcp in listener.incoming() {
            thread::spawn(move || answer(tcp.unwrap(), "200 OK", "back"));
        }
    });
    assert_eq!(get(&proxy), "back");
    let (_, errors) = proxy.last_words();
    for (times, text) in [
        (1, "it fails, and is not left out: no other one is well"),
        (1, "it answers again"),
        (0, "and is left out"),
    ] {
        assert_eq!(errors.matches(text).count(), times, "{text}: {errors}");
    }
    assert!(errors.contains(&format!("http://{address}")), "{errors}");
}

#[test]
fn what_is_cut_off_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let proxy = start(&["--upstream", &url, "--set", "timeouts.drain=10ms"]);
    let mut tcp = TcpStream::connect(proxy.address()).unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    let (_open, _) = listener.accept().unwrap();
    let (_, errors) = proxy.last_words();
    let expected = "not having finished within timeouts.drain: requests: 1, connections: 1";
    assert!(errors.contains(expected), "{errors}");
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    let path = file("proxy-wrong.toml");
    let name = path.to_str().unwrap();
    fail(&["proxy"], &["--upstream http://HOST:PORT"]);
    fail(&["proxy", "/nowhere.toml"], &["/nowhere.toml"]);
    let url = "--upstream=127.0.0.1:80";
    fail(&["proxy", url], &["http://HOST:PORT"]);
    let valid = "upstreams.a.replicas = ['http://127.0.0.1:1']\n";
    for (text, expected) in [
        ("lissten = 'x'", &["line 1", "lissten", "listen"][..]),
        ("listen = 'x'", &["line 1", "\"x\"", "ADDRESS:PORT", "0.0.0.0:8000"]),
        ("listen = ':8000'", &["line 1", "ADDRESS:PORT in digits"]),
        ("listen = 8000", &["line 1", "an address in quotes", "ADDRESS:PORT"]),
        ("metrics.listen = 'localhost:9117'", &["line 1", "localhost", "127.0.0.1:9117"]),
        ("mode = 'strict'", &["observe", "enforce"]),
        ("upstreams.a = {}", &["upstreams.a.replicas: there is none"]),
        ("upstreams.a.replicas = ['ftp://x']", &["ftp://x", "http://HOST:PORT"]),
        ("limits.streams = 0", &["limits.streams: 0 is out of range; allowed is 1 to 10000"]),
        ("timeouts.head = 100", &["line 1", "a number and a unit in quotes, such as \"100ms\""]),
        ("timeouts.head = '2h'", &["2h", "ns, us, ms, s, m"]),
        ("timeouts.head = '90m'", &["timeouts.head", "allowed is 1ms to 60m"]),
        ("upgrades = ['h2c']", &["upgrades: \"h2c\""]),
        ("status.overload = 200", &["status.overload", "400 to 599"]),
        ("[[routes]]\nupstream = 'b'", &["routes[0].upstream", "allowed is one of a"]),
        ("[[routes]]\npath = 'x'", &["routes[0].path", "begins with /"]),
        ("[[routes]]\n[[routes]]", &["routes[1].name", "name of its own"]),
        ("upstreams.a.admission.algorithm = 'x'", &["upstreams.a.admission.algorithm", "protego"]),
        ("upstreams.a.admission.algorithm = 'protego'", &["upstreams.a.slo: protego needs it"]),
        ("upstreams.a.gate.limit.policy = 'x'", &["upstreams.a.gate.limit.policy: ", "knee"]),
        ("upstreams.a.gate.limit.fixed = 0", &["upstreams.a.gate.limit.fixed: ", "1 to"]),
        ("upstreams.a.gate.limit.aimd.decrease = 2", &["upstreams.a.gate.limit.aimd.decrease: "]),
        ("upstreams.a.gate.queue_max = 0", &["upstreams.a.gate.queue_max: "]),
        ("upstreams.a.slo = 100", &["line 1", "a number and a unit in quotes"]),
        ("upstreams.a.health.probe = 'http'", &["\"http\" needs a path: probe = { http = \"/h"]),
        ("upstreams.a.health.probe = 'grpc'", &["\"grpc\" needs a service", "{ grpc = \"\" }"]),
        ("upstreams.a.health.probe = 'ping'", &["ping", "\"none\", \"tcp\", { http = "]),
        ("upstreams.a.health.probe = { ping = '/' }", &["ping", "http", "grpc"]),
        ("upstreams.a.health.probe = { http = 'x' }", &["upstreams.a.health.probe.http: "]),
        ("upstreams.a.retry.attempts = 0", &["upstreams.a.retry.attempts", "1 to 16"]),
        ("upstreams.a.tls.key = 'x'", &["upstreams.a.tls.key", "give both"]),
        (
            "tls = { certificate = '/none.pem', key = '/none.pem' }",
            &["tls.certificate: /none.pem: no such file"],
        ),
        ("tls.certificate = '/none.pem'", &["tls.key: it is missing; it goes with tls.certif"]),
        ("tls.key = '/none.pem'", &["tls.certificate: it is missing; it goes with tls.key"]),
    ] {
        let whole = if text.starts_with("upstreams.a = ") || text.contains("ftp") {
            format!("{text}\n")
        } else if text.starts_with('[') {
            format!("{valid}{text}\n")
        } else {
            format!("{text}\n{valid}")
        };
        std::fs::write(&path, whole).unwrap();
        fail(&["proxy", name, "--check"], expected);
        fail(&["proxy", name], expected);
    }
    let table = "[upstreams.shop]\nreplicas = ['https://127.0.0.1:1']\n";
    std::fs::write(&path, format!("{table}tls.authorities = '/none.pem'\n")).unwrap();
    fail(&["proxy", name], &["upstreams.shop.tls.authorities: /none.pem: no such file"]);
    std::fs::write(&path, format!("{table}tls.authorities = '{name}'\n")).unwrap();
    fail(&["proxy", name], &["upstreams.shop.tls.authorities: ", "there is no certificate in it"]);
    let slo = "--slo belongs to --upstream; with a file use --set upstreams.shop.slo=50ms";
    fail(&["proxy", name, "--slo", "50ms"], &[slo]);
    fail(&["proxy", "--slo", "50ms"], &["--slo belongs to --upstream"]);
    fail(&["proxy", name, "--set", "listen"], &["--set listen: write KEY=VALUE"]);
    fail(&["proxy", name, "--set", "listn=1"], &["in --set listn=1: ", "listen"]);
    fail(&["proxy", "--listen", ":8000"], &["ADDRESS:PORT in digits"]);
    fail(&["proxy", "--metrics", "localhost:9117"], &["ADDRESS:PORT in digits"]);
    let nobody = "http://127.0.0.1:1";
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let listen = ["proxy", "--upstream", nobody, "--listen", &taken];
    fail(&listen, &[&format!("cannot listen at {taken}")]);
}
