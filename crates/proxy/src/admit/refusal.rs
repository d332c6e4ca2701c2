//! Why a request is not passed on.

use std::fmt;
use std::time::Duration;

use seawall_control::request::{RefusalReason, Rejected};
use seawall_tower::server::parts;

/// A refusal, as it was decided and as it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) rejected: Rejected,
    pub(crate) told: parts::Refusal,
    /// The SLO, where there is one, and the time that 99 % of the request's class take of it.
    pub(crate) slo: Option<(Duration, Duration)>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rejected.fmt(f)?;
        let is_for_time =
            matches!(self.rejected.reason, RefusalReason::Budget | RefusalReason::Deadline);
        match self.slo.filter(|_| is_for_time) {
            Some((slo, tail)) if !tail.is_zero() => {
                write!(f, "; SLO {slo:?}, of which this class takes {tail:.1?} (p99)")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_control::fields::{self, Name};
    use seawall_control::request::Stage;

    #[test]
    fn it_tells_who_takes_the_slo() {
        let ms = Duration::from_millis;
        let text = |rejected, slo| {
            let name = Name::lossy("gate");
            let news = fields::Response::default();
            let told = parts::Refusal::new(&rejected, false, name, &news, 0.5);
            Refusal { rejected, told, slo }.to_string()
        };
        let late = Rejected::new(Stage::GATE, ms(12), ms(10)).with_reason(RefusalReason::Budget);
        let plain = "refused at gate: predicted wait 12ms, at most 10ms";
        assert_eq!(
            text(late, Some((ms(200), Duration::from_micros(189_630)))),
            format!("{plain}; SLO 200ms, of which this class takes 189.6ms (p99)")
        );
        assert_eq!(text(late, Some((ms(200), Duration::ZERO))), plain, "it is not known yet");
        assert_eq!(text(late, None), plain);
        let entry = Rejected::at_entry(RefusalReason::WindowExceeded, ms(1));
        let said = text(entry, Some((ms(200), ms(100))));
        assert!(!said.contains("SLO"), "that is not about time: {said}");
        let crowded = Rejected::new(Stage::GATE, ms(4), ms(3));
        let plain = "refused at gate: predicted wait 4ms, at most 3ms";
        assert_eq!(text(crowded, Some((ms(200), ms(100)))), plain);
    }
}
