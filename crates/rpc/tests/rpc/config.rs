//! Configuration that cannot be used is refused where it is set, by the name of its field.

use std::time::Duration;

use crate::support::{config, router};
use seawall_rpc::{Budget, Request, Server, ServerConfig, StartError};

/// What is wrong with a file.
fn unreadable(text: &str) -> String {
    toml::from_str::<ServerConfig>(text).unwrap_err().to_string()
}

/// What is wrong with a file that can be read.
fn unusable(text: &str) -> String {
    let config: ServerConfig = toml::from_str(text).unwrap();
    let error = config.validate().unwrap_err().to_string();
    // Starting refuses the same for the same reason.
    match Server::start(config, router()) {
        Err(StartError::Config(refused)) => assert_eq!(refused.to_string(), error),
        other => panic!("{other:?}"),
    }
    error
}

#[test]
fn the_default_is_a_valid_file() {
    let text = toml::to_string(&ServerConfig::default()).unwrap();
    let read: ServerConfig = toml::from_str(&text).unwrap();
    assert_eq!(toml::to_string(&read).unwrap(), text);
    read.validate().unwrap();
    toml::from_str::<ServerConfig>("").unwrap().validate().unwrap();
}

#[test]
fn the_documented_form_is_read() {
    let text = "
        listen = '127.0.0.1:0'
        slo = '500us'
        budget = { fixed = '100us' }
        [admission]
        algorithm = 'breakwater'
        [limits]
        sessions = 100
        hello_timeout = '2s'
        [threads]
        workers = 2
        [[trust.identities]]
        name = 'billing'
        token = 'sixteen or more bytes'
    ";
    let config: ServerConfig = toml::from_str(text).unwrap();
    assert_eq!(config.slo, Duration::from_micros(500));
    assert_eq!(config.budget, Budget::Fixed(Duration::from_micros(100)));
    assert_eq!(config.limits.hello_timeout, Duration::from_secs(2));
    assert_eq!(toml::from_str::<ServerConfig>("budget = 'off'").unwrap().budget, Budget::Off);
    Server::start(config, router()).unwrap();
}

#[test]
fn unknown_fields_are_named() {
    for (text, field) in [
        ("lisen = '127.0.0.1:1'", "lisen"),
        ("[limits]\nsesions = 3", "sesions"),
        ("[threads]\nworker = 3", "worker"),
        ("[trust]\neveryone = true", "everyone"),
        ("[[trust.identities]]\ntokens = 'x'", "tokens"),
        ("[tls]\ncertificate = 'a'\nkey = 'b'\nca = 'c'", "ca"),
        ("[admission.breakwater]\ngamma = 1", "gamma"),
        ("[spill]\nreplica = '127.0.0.1:1'", "replica"),
    ] {
        let error = unreadable(text);
        assert!(error.contains(&format!("unknown field `{field}`")), "{error}");
        assert!(error.contains("expected"), "it says what is known: {error}");
    }
}

#[test]
fn wrong_types_are_named_with_their_line() {
    for (text, wanted) in [
        ("listen = 'everywhere'", "socket address"),
        ("slo = 5", "expected"),
        ("slo = '5 parsecs'", "5 parsecs"),
        ("budget = 'much'", "unknown variant `much`"),
        ("[limits]\nsessions = 'many'", "expected u32"),
        ("[limits]\nbody_bytes = -1", "expected u32"),
        ("receive_timestamps = 1", "expected a boolean"),
        ("[tls]\ncertificate = 'a'", "missing field `key`"),
    ] {
        let error = unreadable(text);
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(error.contains("line"), "{text}: {error}");
    }
}

#[test]
fn values_out_of_range_are_named_with_the_range() {
    for (text, error) in [
        ("slo = '0s'", "slo: 0s is out of range; allowed is 1us or more"),
        ("attempts = 0", "attempts: 0 is out of range; allowed is 1 to 16"),
        ("target_delay = '0s'", "target_delay: 0s is out of range; allowed is 1us or more"),
        (
            "target_delay = '3ms'",
            "target_delay: 3ms is out of range; allowed is up to the SLO, 2ms",
        ),
        ("rtt = '0s'", "rtt: 0s is out of range; allowed is 1ns or more"),
        ("budget = { fixed = '0s' }", "budget: 0s is out of range"),
        ("[threads]\nslice = '0s'", "threads.slice: 0s is out of range"),
        (
            "[threads]\nworkers = 1025",
            "threads.workers: 1025 is out of range; allowed is 0 to 1024",
        ),
        ("[threads]\ndispatchers = 5000", "threads.dispatchers: 5000 is out of range"),
        (
            "[spill]\noutstanding = 0",
            "spill.outstanding: 0 is out of range; allowed is 1 to 1048576",
        ),
        (
            "[spill]\nreplicas = ['127.0.0.1:7117']",
            "spill.replicas: 127.0.0.1:7117 is this server; name others",
        ),
        (
            "[spill.tls]\nauthorities = 'a'\nserver_name = 'b'\nkey = 'c'",
            "spill.tls: certificate and key belong together; give both or neither",
        ),
        ("[limits]\nsessions = 0", "limits.sessions: 0 is out of range; allowed is 1 to 16777216"),
        ("[limits]\nbody_bytes = 0", "limits.body_bytes: 0 is out of range"),
        ("[limits]\nbody_bytes = 1073741825", "limits.body_bytes: 1073741825 is out of range"),
        ("[limits]\noutstanding = 0", "limits.outstanding: 0 is out of range"),
        ("[limits]\nviolations = 0", "limits.violations: 0 is out of range"),
        (
            "[limits]\nunread_bytes = 100",
            "limits.unread_bytes: 100 is out of range; allowed is 4096 ",
        ),
        (
            "[limits]\nhello_timeout = '0s'",
            "limits.hello_timeout: 0s is out of range; allowed is 1ms ",
        ),
        ("[limits]\nframe_timeout = '1us'", "limits.frame_timeout: 1us is out of range"),
        ("[limits]\nwrite_timeout = '999us'", "limits.write_timeout: 999us is out of range"),
        ("[admission]\nalgorithm = 'magic'", "\"magic\" is unknown; allowed is one of none, "),
        (
            "[admission.breakwater]\nbeta = 2.0",
            "breakwater.beta: 2 is out of range; allowed is 0 to 1",
        ),
        (
            "[admission.credit]\nwindow_max = 0",
            "credit.window_max: 0 is out of range; allowed is 1 to ",
        ),
        ("[trust]\nrequire_identity = true", "trust.require_identity: nobody could connect"),
        ("[[trust.identities]]\nname = 'a'", "trust.identities: \"a\" has neither a token nor "),
    ] {
        let found = unusable(text);
        assert!(found.contains(error), "{text}: {found}");
    }
}

#[test]
fn no_time_that_is_allowed_is_too_long() {
    let longest = Duration::from_secs(18_446_744_073);
    for algorithm in seawall_control::admission::NAMES {
        let mut config = config(algorithm);
        (config.slo, config.rtt) = (longest, longest);
        (config.network_p99, config.service_p99) = (Some(longest), Some(longest));
        config.limits.hello_timeout = longest;
        (config.limits.frame_timeout, config.limits.write_timeout) = (longest, longest);
        let server = Server::start(config, router()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let session = crate::support::session(&server).await;
            for _ in 0..10 {
                let call = Request::new(crate::support::ECHO, "x").with_deadline(Duration::MAX);
                assert_eq!(session.call(call).await.unwrap().payload, "x", "{algorithm}");
            }
        });
    }
    for field in ["slo", "rtt", "network_p99", "service_p99", "budget", "threads.slice"] {
        let mut config = config("none");
        match field {
            "slo" => config.slo = Duration::MAX,
            "rtt" => config.rtt = Duration::MAX,
            "network_p99" => config.network_p99 = Some(Duration::MAX),
            "service_p99" => config.service_p99 = Some(Duration::MAX),
            "budget" => config.budget = Budget::Fixed(Duration::MAX),
            _ => config.threads.slice = Duration::MAX,
        }
        let error = config.validate().unwrap_err().to_string();
        let allowed = "is out of range; allowed is up to 18446744073s";
        assert!(error.starts_with(field) && error.ends_with(allowed), "{error}");
    }
}

#[test]
fn an_address_in_use_is_named() {
    let first = Server::start(config("breakwater"), router()).unwrap();
    let second = ServerConfig { listen: first.address(), ..config("breakwater") };
    let error = Server::start(second, router()).unwrap_err();
    assert!(matches!(error, StartError::Listen { .. }), "{error}");
    let expected = format!("cannot listen at {}: ", first.address());
    let error = error.to_string();
    assert!(error.starts_with(&expected) && error.contains("in use"), "{error}");
}

#[test]
fn an_address_of_somebody_else_is_named() {
    let listen = "192.0.2.1:7117".parse().unwrap(); // for documentation only (RFC 5737)
    let error = Server::start(ServerConfig { listen, ..config("breakwater") }, router());
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("cannot listen at 192.0.2.1:7117: "), "{error}");
}
