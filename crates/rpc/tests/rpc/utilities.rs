//! Servers that steer for what their program values.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::{config, session};
use seawall_control::controller::Signal;
use seawall_control::credit;
use seawall_control::svalinn::{self, Svalinn};
use seawall_control::utility::{Measured, Utility};
use seawall_rpc::{Request, Server};

/// Values little power, and remembers how much it was shown.
#[derive(Debug, Default)]
struct Frugal {
    milliwatts: AtomicU64,
}

impl Utility for Frugal {
    fn of(&self, measured: &Measured) -> f64 {
        self.milliwatts.store((measured.power * 1e3) as u64, SeqCst);
        -measured.power
    }
}

#[tokio::test]
async fn a_utility_of_the_programs_own_values_what_it_signals() {
    let utility = Arc::new(Frugal::default());
    let algorithm = Svalinn {
        policy: svalinn::Config::default(),
        utility: utility.clone(),
        credit: credit::Config::default(),
    };
    let server = Server::start_with(config("none"), Arc::new(algorithm), crate::support::router());
    let server = server.unwrap();
    let session = session(&server).await;
    server.signal(Signal::Power { watts: 42.5 });
    let began = Instant::now();
    while utility.milliwatts.load(SeqCst) != 42_500 {
        session.call(Request::new(crate::support::ECHO, "")).await.unwrap();
        assert!(began.elapsed() < 20 * Duration::from_secs(1), "no experiment ended");
    }
    let stats = server.stats();
    let utility = stats.controller.iter().find(|(name, _)| *name == "utility");
    assert_eq!(utility, Some(&("utility", -42.5)));
}
