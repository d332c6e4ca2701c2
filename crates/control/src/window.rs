//! A client-side window, as TCP has one: it grows while replies are in time and shrinks when they
//! are late.
//!
//! This is ORCA's rate limiting as Breakwater describes it (§2.2). Nobody divides the server's
//! capacity: each client finds its part by trying. A window has at least one place, so a crowd of
//! clients sends that many requests at once, however slow the server is (Figure 1 b).

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::controller::{
    Algorithm, ClientController, Demand, Departure, Init, Response, ServerController,
};
use crate::metrics::Metrics;
use crate::open::Open;
use crate::time::Instant;

/// Parameters of the clients' windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Growth of the window for each reply within the SLO, in requests. Default 0.01, which with
    /// the default decrease lets about 1 % of the replies be late at a window of ten.
    pub increase: f64,
    /// Factor applied to the window for each reply that is late or a refusal. Default 0.9.
    pub decrease: f64,
    /// The window never exceeds this, in requests. Default 64, as that of credits. It bounds what
    /// a client that was in time for long sends at once when the overload begins.
    pub window_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { increase: 0.01, decrease: 0.9, window_max: 64 }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("window.increase", self.increase, 0.0001..=1000.0)?;
        ConfigError::check_range("window.decrease", self.decrease, 0.1..=0.999)?;
        ConfigError::check_range("window.window_max", self.window_max, 1..=1 << 20)
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "window"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn server(self: Arc<Self>, _init: Init) -> Box<dyn ServerController> {
        Box::new(Open)
    }

    fn client(self: Arc<Self>, init: Init) -> Box<dyn ClientController> {
        Box::new(Client::new(&self, init))
    }
}

/// Client half: one window.
#[derive(Clone, Debug)]
pub struct Client {
    slo: Duration,
    increase: f64,
    decrease: f64,
    window_max: f64,
    window: f64,
}

impl Client {
    /// A window of one request, for the SLO of `init`.
    pub fn new(config: &Config, init: Init) -> Self {
        Self {
            slo: init.slo,
            increase: config.increase,
            decrease: config.decrease,
            window_max: f64::from(config.window_max),
            window: 1.0,
        }
    }
}

impl ClientController for Client {
    fn on_demand(&mut self, _now: Instant, demand: &Demand) -> Departure {
        if f64::from(demand.outstanding) + 1.0 <= self.window {
            return Departure::Now;
        }
        Departure::Hold
    }

    fn on_response(&mut self, _now: Instant, response: &Response) {
        self.window = if response.served && response.latency < self.slo {
            (self.window + self.increase).min(self.window_max)
        } else {
            (self.window * self.decrease).max(1.0)
        };
    }

    fn metrics(&self) -> Metrics {
        Metrics::new().with("client_window", self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Feedback;

    const SLO: Duration = Duration::from_micros(200);

    fn client(window_max: u32) -> Client {
        let config = Config { increase: 0.5, decrease: 0.5, window_max };
        Client::new(&config, Init { slo: SLO, ..Init::new(Instant::ORIGIN, 0) })
    }

    fn window_after(client: &mut Client, latency_us: u64, served: bool) -> f64 {
        let mut response = Response::new(Duration::from_micros(latency_us), Feedback::None);
        response.served = served;
        client.on_response(Instant::ORIGIN, &response);
        client.window
    }

    #[test]
    fn grows_by_a_sum_and_shrinks_by_a_factor_to_one_at_least() {
        let client = &mut client(4);
        let windows = [199, 199, 199, 199, 200, 199].map(|us| window_after(client, us, true));
        assert_eq!(windows, [1.5, 2.0, 2.5, 3.0, 1.5, 2.0]);
        assert_eq!(window_after(client, 10, false), 1.0, "a refusal is no sign of room");
        assert_eq!(window_after(client, 10, false), 1.0);
        (0..9).for_each(|_| _ = window_after(client, 10, true));
        assert_eq!(client.window, 4.0);
    }

    #[test]
    fn holds_what_exceeds_the_window() {
        let client = &mut client(8);
        let departure = |client: &mut Client, outstanding| {
            client.on_demand(Instant::ORIGIN, &Demand::new(outstanding))
        };
        assert_eq!(departure(client, 0), Departure::Now);
        assert_eq!(departure(client, 1), Departure::Hold);
        window_after(client, 10, true); // one and a half: half a request does not leave
        assert_eq!(departure(client, 1), Departure::Hold);
        window_after(client, 10, true);
        assert_eq!(departure(client, 1), Departure::Now);
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        assert_eq!(field(Config { increase: 0.0, ..Config::default() }), "window.increase");
        assert_eq!(field(Config { decrease: 1.0, ..Config::default() }), "window.decrease");
        assert_eq!(field(Config { window_max: 0, ..Config::default() }), "window.window_max");
    }
}
