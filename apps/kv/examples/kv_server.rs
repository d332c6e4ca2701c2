//! A key-value server on free ports of loopback, for native and memcached's clients.
//!
//! It prints its two addresses, serves until its standard input ends, and then prints what it has
//! counted. Its argument, if there is one, is a file with a `KvConfig` as TOML.

use std::io::Read;
use std::time::Duration;

use seawall_kv::server::{KvConfig, KvServer};

/// How long it may take to answer what was accepted before the end.
const GRACE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = match std::env::args().nth(1) {
        Some(path) => toml::from_str(&std::fs::read_to_string(path)?)?,
        None => KvConfig::default(),
    };
    let free_port = ([127, 0, 0, 1], 0).into();
    config.server.listen = free_port;
    config.memcached.get_or_insert(free_port);

    let server = KvServer::start(config)?;
    println!("native {}", server.address());
    println!("memcached {}", server.memcached_address().expect("it was asked for"));
    std::io::stdin().read_to_end(&mut Vec::new())?;

    let stats = server.stats();
    println!(
        "requests {} completions {} refusals {} failures {} cancellations {} protocol_errors {}",
        stats.requests,
        stats.completions,
        stats.refused(),
        stats.failures,
        stats.cancellations,
        stats.protocol_errors.values().sum::<u64>(),
    );
    for (stage, refusals) in &stats.refusals {
        println!("refused at {stage} {refusals}");
    }
    println!("sessions {} outstanding {}", stats.sessions, stats.outstanding);
    server.shutdown(GRACE);
    Ok(())
}
