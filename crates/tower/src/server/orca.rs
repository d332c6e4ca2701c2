//! Reports of load (ORCA), which tell balancers how busy a server is.
//!
//! `endpoint-load-metrics-bin` is `xds.data.orca.v3.OrcaLoadReport`, in a trailer of gRPC (gRFC
//! A51) or in a header of HTTP.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use prost::Message;
use seawall_control::Instant;

/// The name of the header and of the trailer.
pub const REPORT: HeaderName = HeaderName::from_static("endpoint-load-metrics-bin");

/// Rates are taken over so long at least.
const INTERVAL: Duration = Duration::from_millis(100);

/// `xds.data.orca.v3.OrcaLoadReport`.
#[derive(Clone, PartialEq, Message)]
pub struct Report {
    /// Fraction of the CPU that is used; 0 if that was not measured.
    #[prost(double, tag = "1")]
    pub cpu_utilization: f64,
    /// Fraction of the memory that is used; 0 if that was not measured.
    #[prost(double, tag = "2")]
    pub mem_utilization: f64,
    /// Utilizations of resources by name, each up to 1.
    #[prost(btree_map = "string, double", tag = "5")]
    pub utilization: BTreeMap<String, f64>,
    /// Requests per second.
    #[prost(double, tag = "6")]
    pub rps_fractional: f64,
    /// Requests per second that were not served: errors, and refusals.
    #[prost(double, tag = "7")]
    pub eps: f64,
    /// What the application likes to tell, by name.
    #[prost(btree_map = "string, double", tag = "8")]
    pub named_metrics: BTreeMap<String, f64>,
    /// How much of what it can do the server does: of its highest bottleneck, may exceed 1.
    #[prost(double, tag = "9")]
    pub application_utilization: f64,
}

impl Report {
    /// As the value of the header.
    pub fn encode_header(&self) -> HeaderValue {
        let text = STANDARD_NO_PAD.encode(self.encode_to_vec());
        HeaderValue::from_maybe_shared(bytes::Bytes::from(text)).expect("base64 is printable")
    }

    /// Reads the value of the header; `None` if it is none.
    pub fn decode_header(value: &HeaderValue) -> Option<Self> {
        const EITHER: GeneralPurposeConfig =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, EITHER);
        Self::decode(&*engine.decode(value.as_bytes()).ok()?).ok()
    }
}

/// What reports are made of.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Time in handlers, nanoseconds, and requests, all of them and those that were not served.
    pub(super) busy: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) unserved: AtomicU64,
    rates: Mutex<Rates>,
    /// What the application said of stages of its own.
    own: Mutex<BTreeMap<String, f64>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    since: Instant,
    counted: [u64; 3],
    /// Of the interval before: handlers that ran on average, requests and those not served in a
    /// second.
    busy: f64,
    rps: f64,
    eps: f64,
}

impl Load {
    /// Takes rates, if it is time to.
    pub(super) fn tick(&self, now: Instant) {
        let counted = [&self.busy, &self.requests, &self.unserved].map(|it| it.load(Relaxed));
        let mut rates = self.rates.lock();
        if rates.since == Instant::ORIGIN {
            *rates = Rates { since: now, counted, ..Rates::default() };
            return;
        }
        let time = now.since(rates.since);
        if time < INTERVAL {
            return;
        }
        let mut rate = [0.0; 3];
        for (rate, (now, before)) in rate.iter_mut().zip(counted.into_iter().zip(rates.counted)) {
            *rate = (now - before) as f64 / time.as_secs_f64();
        }
        let [busy, rps, eps] = rate;
        *rates = Rates { since: now, counted, busy: busy / 1e9, rps, eps };
    }

    /// Sets what the application says of a stage of its own.
    pub(super) fn set(&self, stage: &str, utilization: f64) {
        self.own.lock().insert(stage.to_owned(), utilization);
    }

    /// A report of a server with so many workers whose queues delay requests by `delays`, of which
    /// `target` is as much as there may be.
    pub(super) fn report(
        &self,
        workers: usize,
        target: Duration,
        delays: impl IntoIterator<Item = (String, Duration)>,
    ) -> Report {
        let rates = *self.rates.lock();
        let mut named_metrics = self.own.lock().clone();
        named_metrics.insert("handler".into(), rates.busy / workers as f64);
        let part = |delay: Duration| delay.as_secs_f64() / target.as_secs_f64();
        named_metrics.extend(delays.into_iter().map(|(stage, delay)| (stage, part(delay))));
        Report {
            application_utilization: named_metrics.values().copied().fold(0.0, f64::max),
            rps_fractional: rates.rps,
            eps: rates.eps,
            named_metrics,
            ..Report::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bottleneck_is_the_utilization() {
        let (load, ms) = (Load::default(), Duration::from_millis(1));
        let begin = Instant::from_micros(1);
        load.tick(begin);
        load.busy.store(600_000_000, Relaxed);
        load.requests.store(500, Relaxed);
        load.unserved.store(50, Relaxed);
        load.tick(begin + 50 * ms); // too early
        load.tick(begin + 500 * ms);
        load.set("orders", 0.25);
        let report = load.report(2, 10 * ms, [("run_queue".into(), 15 * ms)]);
        let named = [("handler", 0.6), ("orders", 0.25), ("run_queue", 1.5)];
        assert_eq!(report.named_metrics, named.map(|(name, it)| (name.to_owned(), it)).into());
        assert_eq!((report.application_utilization, report.rps_fractional), (1.5, 1000.0));
        assert_eq!(report.eps, 100.0);
    }

    #[test]
    fn a_report_is_what_others_make_of_it() {
        let named = [("a".to_owned(), 0.5)].into();
        let report =
            Report { application_utilization: 1.5, named_metrics: named, ..Report::default() };
        // Field 8, length 12: key "a", value 0.5; field 9: 1.5.
        let bytes = [
            &[0x42, 12, 0x0a, 1, b'a', 0x11][..],
            &0.5_f64.to_le_bytes(),
            &[0x49],
            &1.5_f64.to_le_bytes(),
        ];
        assert_eq!(report.encode_to_vec(), bytes.concat());
        let header = report.encode_header();
        assert_eq!(Report::decode_header(&header), Some(report.clone()));
        let padded = format!("{}=", header.to_str().unwrap());
        let padded = HeaderValue::from_str(&padded).unwrap();
        assert_eq!(Report::decode_header(&padded).is_some(), header.len() % 4 == 3);
        assert_eq!(Report::decode_header(&HeaderValue::from_static("%")), None);
    }
}
