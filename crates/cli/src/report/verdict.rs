//! What the points say, in sentences with numbers; page and terminal tell the same.

use seawall_measure::latency::is_lower_bound;

use super::data::{NO_CONTROL, Point, ServiceReport, Spike, SpikeRun};
use super::format;

/// The load at which a service is judged, if it was measured: twice what it can do.
const JUDGED_LOAD: f64 = 2.0;

/// One algorithm's points that the verdict rests on.
pub(super) struct Verdict<'a> {
    service: &'a ServiceReport,
    /// The algorithm.
    pub(super) control: &'a str,
    /// The valid point beyond the capacity that lies nearest to twice of it.
    pub(super) with: Option<&'a Point>,
    /// The valid point without control nearest to the same load.
    pub(super) without: Option<&'a Point>,
}

impl<'a> Verdict<'a> {
    /// One verdict per algorithm; none if there are only points without control.
    pub(super) fn all(service: &'a ServiceReport) -> Vec<Self> {
        let controls = service.controls();
        let algorithms = controls.into_iter().filter(|&control| control != NO_CONTROL);
        algorithms.map(|control| Self::of(service, control)).collect()
    }

    /// The verdict that stands for the service: of the first algorithm that was measured beyond the
    /// capacity, or else of the first.
    pub(super) fn main(service: &'a ServiceReport) -> Option<Self> {
        let mut all = Self::all(service);
        let index = all.iter().position(|verdict| verdict.with.is_some()).unwrap_or(0);
        (!all.is_empty()).then(|| all.swap_remove(index))
    }

    fn of(service: &'a ServiceReport, control: &'a str) -> Self {
        let with = nearest(service, control, JUDGED_LOAD);
        let load = with.map_or(JUDGED_LOAD, |point| point.load);
        Self { service, control, with, without: nearest(service, NO_CONTROL, load) }
    }

    /// Goodput with control as a fraction of [`ServiceReport::most`], such as `96 %`.
    pub(super) fn goodput_share(&self) -> String {
        share_of_most(self.service, self.with)
    }

    /// The same for the point without control.
    pub(super) fn goodput_share_without(&self) -> String {
        share_of_most(self.service, self.without)
    }

    /// Whether the tail with control is known to be within the SLO; `None` if nothing was measured.
    pub(super) fn within_slo(&self) -> Option<bool> {
        let point = self.with?;
        Some(point.p99_us? <= self.service.slo_us && !is_lower_bound(0.99, point.latency_censored))
    }

    /// Goodput and tail with control, then what was dropped.
    fn with_control(&self) -> String {
        let (name, control) = (&self.service.service, self.control);
        let Some(point) = self.with else {
            return format!("With {control}, {name} has no valid point beyond its capacity.");
        };
        let most = format::rate(self.service.most().1);
        let of_most = match self.service.peak_uncontrolled {
            Some(_) => format!("the {most}/s that it reaches at most without control"),
            None => {
                format!("its capacity of {most}/s, which no valid point without control reached")
            }
        };
        let mut text = format!(
            "With {control} at {} the capacity, {name} had a goodput of {}/s: {} of {of_most}.",
            format::load(point.load),
            format::rate(point.goodput),
            self.goodput_share(),
        );
        let slo = format::delay(self.service.slo_us);
        text += &match self.within_slo() {
            Some(true) => format!(" p99 latency was {}, within the SLO of {slo}.", point.p99()),
            Some(false) => format!(" p99 latency was {}, above the SLO of {slo}.", point.p99()),
            None => " Nothing was served.".into(),
        };
        text += &format!(
            " The clients gave up {} of the requests unsent, and the server refused {} of those \
             sent.",
            format::percent(point.client_drop_rate),
            format::percent(point.server_drop_rate),
        );
        text
    }

    /// The same for an algorithm beside the main one.
    fn briefly(&self) -> String {
        let Some(point) = self.with else { return self.with_control() };
        let (load, goodput) = (format::load(point.load), format::rate(point.goodput));
        let tail = match point.p99_us {
            Some(_) => format!("p99 latency {}", point.p99()),
            None => "nothing served".into(),
        };
        let (share, (most, _)) = (self.goodput_share(), self.service.most());
        format!(
            "With {} at {load}: goodput {goodput}/s ({share} of the {most}), {tail}.",
            self.control
        )
    }

    /// Whether a point nearer to the judged load had to be left out.
    fn left_out(&self) -> Option<String> {
        let points = self.service.points_of(self.control);
        let distance = |point: &Point| (point.load - JUDGED_LOAD).abs();
        let nearest = points.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        (!nearest.valid).then(|| {
            let load = format::load(nearest.load);
            format!("The point at {load} with {} is not valid and is left out.", self.control)
        })
    }
}

/// The verdict as sentences: each algorithm, then no control, then the spike.
pub(super) fn sentences(service: &ServiceReport) -> Vec<String> {
    let verdicts = Verdict::all(service);
    let main = Verdict::main(service);
    let mut sentences = Vec::new();
    if service.controls().is_empty() {
        sentences.push(format!("Nothing was measured of {}.", service.service));
    } else if main.is_none() {
        sentences.push(format!("{} was measured without control only.", service.service));
    }
    for verdict in &verdicts {
        let is_main = main.as_ref().is_some_and(|main| main.control == verdict.control);
        sentences.push(if is_main { verdict.with_control() } else { verdict.briefly() });
        sentences.extend(verdict.left_out());
    }
    let without = match main {
        Some(verdict) => verdict.without,
        None => nearest(service, NO_CONTROL, JUDGED_LOAD),
    };
    sentences.extend(without.map(|point| without_control(service, point)));
    if let Some(spike) = &service.spike {
        sentences.push(after_the_rise(spike));
    }
    sentences
}

fn without_control(service: &ServiceReport, point: &Point) -> String {
    let load = format::load(point.load);
    let goodput = format::rate(point.goodput);
    let (share, (most, _)) = (share_of_most(service, Some(point)), service.most());
    let tail = match point.p99_us {
        Some(_) => format!("p99 latency was {}", point.p99()),
        None => "nothing was served".into(),
    };
    format!(
        "Without control at {load}, goodput was {goodput}/s ({share} of the {most}) and {tail}."
    )
}

fn after_the_rise(spike: &Spike) -> String {
    let (from, to) = (format::load(spike.from_load), format::load(spike.to_load));
    let settled = |after: Option<f64>| match after {
        Some(ms) => format!("was stable after {}", format::delay_ms(ms)),
        None if spike.too_short => {
            "was watched for too short a time to tell if it is stable".into()
        }
        None => "did not become stable".into(),
    };
    let bin_by_bin = |run: &SpikeRun| match run.stable_bin_by_bin_ms {
        Some(ms) => format!(", {} if each bin is judged by itself", format::delay_ms(ms)),
        None if spike.too_short => String::new(),
        None => ", never if each bin is judged by itself".into(),
    };
    let algorithm = spike.runs.iter().find(|run| run.control != NO_CONTROL);
    let name = algorithm.map_or("the controlled run", |run| run.control.as_str());
    let mut text = format!(
        "When the load rose from {from} to {to} at once, {name} {} (goodput {}/s before, {}/s \
         and p99 {} after{})",
        settled(spike.stable_after_ms),
        format::rate(spike.goodput_before),
        format::rate(spike.goodput_after),
        format::delay_or_nothing(spike.p99_us_after),
        algorithm.map(bin_by_bin).unwrap_or_default(),
    );
    let without = spike.runs.iter().find(|run| run.control == NO_CONTROL);
    if let Some(run) = without.filter(|_| !spike.too_short) {
        text += &format!("; without control the service {}", settled(run.stable_after_ms));
    }
    text + "."
}

fn share_of_most(service: &ServiceReport, point: Option<&Point>) -> String {
    let share = |point: &Point| format::percent_of(point.goodput, service.most().1);
    point.map_or_else(|| format::NOTHING.into(), share)
}

/// The valid point of `control` beyond the capacity whose load is nearest to `load`.
fn nearest<'a>(service: &'a ServiceReport, control: &str, load: f64) -> Option<&'a Point> {
    let usable = |point: &&Point| point.control == control && point.valid && point.load > 1.0;
    let distance = |point: &Point| (point.load - load).abs();
    service.points.iter().filter(usable).min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn sentences_state_the_numbers() {
        let service = sample::service();
        let text = sentences(&service).join(" ");
        let with = Verdict::all(&service)[0].with.unwrap();
        assert_eq!(with.load, 2.0);
        assert!(text.contains(&format!("goodput of {}/s", format::rate(with.goodput))), "{text}");
        assert!(text.contains("within the SLO of 1.10 ms"), "{text}");
        assert!(text.contains("Without control at 2.0×, goodput was"), "{text}");
        assert!(
            text.contains("stable after 120 ms (goodput 74.0k/s before, 119k/s and p99 "),
            "{text}"
        );
        assert!(text.contains(" after, 180 ms if each bin is judged by itself)"), "{text}");
        assert!(text.contains("did not become stable."), "{text}");
    }

    #[test]
    fn what_was_too_short_is_not_judged() {
        let mut service = sample::service();
        let spike = service.spike.as_mut().unwrap();
        (spike.too_short, spike.stable_after_ms) = (true, None);
        for run in &mut spike.runs {
            (run.stable_after_ms, run.stable_bin_by_bin_ms) = (None, None);
        }
        let text = sentences(&service).join(" ");
        assert!(text.contains("breakwater was watched for too short a time to tell"), "{text}");
        assert!(!text.contains("did not become stable") && !text.contains("never"), "{text}");
    }

    #[test]
    fn an_invalid_point_is_left_out_and_named() {
        let mut service = sample::service();
        for point in &mut service.points {
            point.valid = point.load != 2.0;
        }
        let text = sentences(&service).join(" ");
        assert!(text.contains("The point at 2.0× with breakwater is not valid"), "{text}");
        assert_ne!(Verdict::all(&service)[0].with.unwrap().load, 2.0);
    }

    #[test]
    fn little_data_makes_plain_sentences() {
        let mut service = sample::service();
        service.points.retain(|point| point.control == NO_CONTROL);
        service.spike = None;
        assert!(sentences(&service)[0].contains("without control only"));
        service.points.clear();
        assert_eq!(sentences(&service), ["Nothing was measured of kv."]);
        let mut service = sample::service();
        service.points.retain(|point| point.load < 1.0);
        assert!(sentences(&service)[0].contains("no valid point beyond its capacity"));
        (service.peak_uncontrolled, service.capacity) = (None, 0.0);
        assert_eq!(share_of_most(&service, service.points.first()), format::NOTHING);
    }

    #[test]
    fn without_a_peak_the_capacity_takes_its_place() {
        let mut service = sample::service();
        service.peak_uncontrolled = None;
        let text = sentences(&service).join(" ");
        let capacity = "96 % of its capacity of 123k/s, which no valid point without control";
        assert!(text.contains(capacity), "{text}");
        assert!(text.contains("% of the capacity) and p99"), "{text}");
        assert!(!text.contains("peak"), "{text}");
    }

    #[test]
    fn further_algorithms_are_brief() {
        let mut service = sample::service();
        let second: Vec<Point> =
            service.points.iter().filter(|p| p.control != NO_CONTROL).cloned().collect();
        service.points.extend(second.into_iter().map(|p| Point { control: "svalinn".into(), ..p }));
        let sentences = sentences(&service);
        assert!(sentences[0].starts_with("With breakwater at 2.0× the capacity, kv had"));
        assert!(
            sentences[1].starts_with("With svalinn at 2.0×: goodput 119k/s (95 % of the peak)")
        );
    }

    #[test]
    fn nothing_served_is_said() {
        let text = sentences(&sample::stalled()).join(" ");
        assert!(text.contains("nothing was served"), "{text}");
    }
}
