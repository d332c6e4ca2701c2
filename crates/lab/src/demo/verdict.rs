//! What the measurements say: in three sentences, and whether it is what was expected.

use super::result::{Measured, Numbers, Point, Spike, SpikeRun};
use super::service::Service;
use crate::report::format;

/// Goodput with control at twice the capacity, as a part of the best without control at any load.
const KEPT: f64 = 0.9;

/// Goodput without control at twice the capacity is at most this part of its best: a collapse.
const COLLAPSED: f64 = 0.5;

/// What was seen, one sentence each: the first service without control and with it, and what
/// becomes of those of its requests that differ, where a service has such.
pub(super) fn sentences(services: &[Measured]) -> Vec<String> {
    let mut sentences = Vec::new();
    let is_plain =
        |service: &&Measured| service.points.first().is_some_and(|point| point.classes.is_empty());
    if let Some(first) = services.iter().find(is_plain) {
        sentences.extend(without_control(first));
        sentences.extend(with_control(first));
    }
    sentences.extend(services.iter().filter_map(by_class));
    sentences
}

fn without_control(service: &Measured) -> Option<String> {
    let (without, _) = service.judged()?;
    let best = service.best_without()?;
    Some(format!(
        "Without control, goodput falls from {}/s at {} the capacity to {}/s at {}: requests wait \
         {} (p99), and only answers within {} count.",
        format::rate(best.all.goodput),
        format::load(best.load),
        format::rate(without.all.goodput),
        format::load(without.load),
        p99(&without.all),
        format::delay(service.slo_us),
    ))
}

fn with_control(service: &Measured) -> Option<String> {
    let (_, with) = service.judged()?;
    let mut text = format!(
        "With Seawall, goodput at {} is {}/s, {} of the capacity, with a p99 of {}",
        format::load(with.load),
        format::rate(with.all.goodput),
        format::percent_of(with.all.goodput, service.capacity),
        p99(&with.all),
    );
    // Nothing is known of less than a bin.
    let within = |run: &SpikeRun| Some(run.stable_after_ms?.max(run.bin_s * 1e3));
    let after = |spike: &Spike| spike.runs.iter().rev().find_map(within);
    text += &match service.spike.as_ref().and_then(after) {
        Some(ms) => {
            let within = format::delay_ms(ms);
            format!("; after a sudden rise to that load it settles within {within}.")
        }
        None => ".".into(),
    };
    Some(text)
}

/// The service of whose requests some need a lock.
fn by_class(service: &Measured) -> Option<String> {
    let (without, with) = service.judged()?;
    let [needs, others] = Service::Lock.classes() else { return None };
    (!with.classes.is_empty()).then(|| {
        format!(
            "Where half of the requests need one lock, Seawall at {} serves {} of those that do \
             not need it, and {}/s of those that do; without control, {} and {}/s.",
            format::load(with.load),
            share_served(with, others),
            format::rate(with.class(needs).goodput),
            share_served(without, others),
            format::rate(without.class(needs).goodput),
        )
    })
}

fn share_served(point: &Point, class: &str) -> String {
    let numbers = point.class(class);
    format::percent_of(numbers.goodput, numbers.offered)
}

fn p99(numbers: &Numbers) -> String {
    match (numbers.p99_us, numbers.p99_is_bound) {
        (None, _) => "for ever".into(),
        (Some(us), true) => format!("more than {}", format::delay(us)),
        (Some(us), false) => format::delay(us),
    }
}

/// What was expected of the measurements and is not so, as sentences.
pub(super) fn unmet(services: &[Measured]) -> Vec<String> {
    services.iter().flat_map(unmet_by).collect()
}

fn unmet_by(service: &Measured) -> Vec<String> {
    let name = service.service.name();
    let mut unmet = Vec::new();
    for point in service.points.iter().filter(|point| !point.valid) {
        let reason = point.invalid_reason.as_deref().unwrap_or("no reason is known");
        let (load, control) = (format::load(point.load), &point.control);
        unmet.push(format!("{name} at {load}, control {control}: not valid: {reason}"));
    }
    let (Some((without, with)), Some(best)) = (service.judged(), service.best_without()) else {
        return unmet; // nothing beyond the capacity was asked for
    };
    let load = format::load(with.load);
    let (good, most) = (with.all.goodput, best.all.goodput);
    if good < KEPT * most {
        unmet.push(format!(
            "{name} at {load} with control: goodput {}/s is below {KEPT} of the best without, {}/s",
            format::rate(good),
            format::rate(most),
        ));
    }
    if !with.all.within(service.slo_us) {
        unmet.push(format!(
            "{name} at {load} with control: p99 is {}, and the SLO {}",
            p99(&with.all),
            format::delay(service.slo_us),
        ));
    }
    if without.all.goodput > COLLAPSED * most {
        unmet.push(format!(
            "{name} at {load} without control: goodput {}/s is above {COLLAPSED} of the best, {}/s",
            format::rate(without.all.goodput),
            format::rate(most),
        ));
    }
    if let Some(spike) = &service.spike {
        let controlled = &spike.runs[spike.runs.len() - 1];
        if controlled.stable_after_ms.is_none() && !controlled.too_short {
            unmet.push(format!("{name}: with control it did not settle after the sudden rise"));
        }
    }
    unmet
}

/// What a reader must know before believing the numbers.
pub(super) fn warnings(services: &[Measured]) -> Vec<String> {
    let mut warnings = Vec::new();
    for service in services {
        for point in &service.points {
            let at = format!(
                "{} at {}, control {}",
                service.service.name(),
                format::load(point.load),
                point.control
            );
            let stalled = format::delay_ms(point.stalled_ms);
            let longest = format::delay_ms(point.longest_stall_ms);
            match (point.tries, point.disturbed) {
                (1, false) => {}
                (_, true) => warnings.push(format!(
                    "{at}: the machine stalled for {stalled} of {:.1} s, {longest} at the longest, \
                     also when it was measured again.",
                    point.seconds,
                )),
                (_, false) => warnings.push(format!("{at}: it was measured again.")),
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::result::NO_CONTROL;
    use crate::demo::sample;

    /// What is not met once the point at twice the capacity is changed.
    fn unmet_with(control: &str, change: impl Fn(&mut Point)) -> Vec<String> {
        let mut service = sample::service(Service::Worker);
        let judged = |point: &&mut Point| point.load == 2.0 && point.control == control;
        change(service.points.iter_mut().find(judged).unwrap());
        unmet(&[service])
    }

    #[test]
    fn three_sentences_say_what_was_seen() {
        let demo = sample::demo();
        assert!(demo.held, "{:?}", demo.unmet);
        let [without, with, lock] = &demo.sentences[..] else { panic!("{:?}", demo.sentences) };
        assert!(without.contains("from 432/s at 0.9× the capacity to 0/s at 2.0×"), "{without}");
        assert!(without.contains("more than 1.90 s (p99)"), "{without}");
        assert!(with.contains("is 466/s, 97 % of the capacity, with a p99 of 17.0 ms"), "{with}");
        assert!(with.contains("settles within 60.0 ms"), "{with}");
        assert!(lock.contains("need one lock"), "{lock}");
    }

    #[test]
    fn each_expectation_can_fail() {
        type Change = fn(&mut Point);
        let cases: [(&str, Change, &str); 5] = [
            ("breakwater", |point| point.all.goodput = 380.0, "goodput 380/s is below"),
            ("breakwater", |point| point.all.p99_us = Some(20_500.0), "p99 is 20.5 ms"),
            ("breakwater", |point| point.all.p99_is_bound = true, "p99 is more than"),
            (NO_CONTROL, |point| point.all.goodput = 300.0, "without control: goodput 300/s"),
            ("breakwater", |point| point.valid = false, "not valid"),
        ];
        for (control, change, expected) in cases {
            let unmet = unmet_with(control, change);
            assert!(unmet.len() == 1 && unmet[0].contains(expected), "{expected}: {unmet:?}");
        }
        let mut service = sample::service(Service::Worker);
        service.spike.as_mut().unwrap().runs[1].stable_after_ms = None;
        assert!(unmet(&[service])[0].contains("did not settle"));
    }

    #[test]
    fn little_data_makes_few_words() {
        let mut service = sample::service(Service::Lock);
        service.points.retain(|point| point.load < 1.0);
        let services = [service];
        assert!(sentences(&services).is_empty() && unmet(&services).is_empty());
        assert!(sentences(&[]).is_empty() && warnings(&[]).is_empty());
    }

    #[test]
    fn disturbances_are_told() {
        let mut service = sample::service(Service::Worker);
        assert!(warnings(std::slice::from_ref(&service)).is_empty());
        (service.points[0].tries, service.points[2].tries) = (2, 2);
        service.points[2].disturbed = true;
        let told = warnings(&[service]);
        assert!(told.len() == 2 && told[0].ends_with("it was measured again."), "{told:?}");
        assert!(told[1].contains("also when it was measured again"), "{told:?}");
    }
}
