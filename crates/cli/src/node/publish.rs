//! What the agent counts, for the metrics endpoint.

use metrics::{counter, gauge};
use seawall_measure::names;
use seawall_node::agent::ResponderStatus;
use seawall_node::agent::status::{ContainerStatus, Status};

/// Hands everything to the endpoint. `known` is what was shown before: containers that have gone
/// are shown with nothing.
pub(super) fn publish(status: &Status, known: &mut Vec<String>) {
    let gone = known.iter().filter(|name| !status.containers.contains_key(*name));
    for name in gone {
        container(name, &ContainerStatus::default());
    }
    for (name, one) in &status.containers {
        container(name, one);
    }
    known.retain(|name| status.containers.contains_key(name));
    known.extend(
        status.containers.keys().filter(|name| !known.contains(name)).cloned().collect::<Vec<_>>(),
    );
    for (decision, count) in &status.decisions {
        counter!(names::SCALING_DECISIONS.name, "decision" => decision.clone()).absolute(*count);
    }
    for (kind, count) in &status.refusals {
        counter!(names::SCALING_REFUSALS.name, "kind" => *kind).absolute(*count);
    }
    for (kind, count) in &status.errors {
        counter!(names::SCALING_ERRORS.name, "kind" => *kind).absolute(*count);
    }
    for (metric, count) in [
        (names::SCALING_OVERRULED, status.overruled),
        (names::SCALING_FOREIGN, status.foreign_changes),
        (names::SCALING_GONE, status.gone),
        (names::SCALING_PASSES, status.passes),
        (names::SCALING_PASSES_MISSED, status.passes_missed),
        (names::SCALING_WATCHDOGS, status.watchdog_starts),
    ] {
        counter!(metric.name).absolute(count);
    }
    responder(&status.responder);
    gauge!(names::SCALING_UNITS_FREE.name).set(status.units_free);
    gauge!(names::SCALING_CONTAINERS.name).set(status.containers.len() as f64);
    gauge!(names::SCALING_PAGES.name, "state" => "read").set(status.pages as f64);
    gauge!(names::SCALING_PAGES.name, "state" => "refused").set(status.pages_refused as f64);
    gauge!(names::SCALING_PAGES.name, "state" => "cut").set(status.pages_cut as f64);
    gauge!(names::SCALING_LATE.name).set(status.lateness.late(0.99).as_secs_f64());
    gauge!(names::SCALING_PASS.name).set(status.lateness.took(0.99).as_secs_f64());
}

fn responder(status: &ResponderStatus) {
    for (name, one) in &status.boosts {
        counter!(names::RESPONDER_BOOSTS.name, "container" => name.clone()).absolute(one.boosts);
        gauge!(names::RESPONDER_BOOSTED.name, "container" => name.clone()).set(one.seconds);
    }
    let Some(source) = status.source else { return };
    gauge!(names::RESPONDER_WATCHES.name, "source" => source).set(1.0);
    counter!(names::RESPONDER_REQUESTS.name, "source" => source).absolute(status.requests);
    counter!(names::RESPONDER_LATE.name, "source" => source).absolute(status.late);
    for (reason, count) in &status.ignored {
        counter!(names::RESPONDER_IGNORED.name, "source" => source, "reason" => *reason)
            .absolute(*count);
    }
    for (reason, count) in &status.cut {
        counter!(names::RESPONDER_CUT.name, "reason" => *reason).absolute(*count);
    }
    counter!(names::RESPONDER_FAILURES.name).absolute(status.failures);
}

fn container(name: &str, one: &ContainerStatus) {
    let label = || name.to_owned();
    gauge!(names::SCALING_UNITS.name, "container" => label()).set(one.units);
    gauge!(names::SCALING_LEVEL.name, "container" => label()).set(f64::from(one.level));
    gauge!(names::SCALING_SCORE.name, "container" => label()).set(one.score);
    gauge!(names::SCALING_UNMET.name, "container" => label())
        .set(f64::from(u8::from(one.is_unmet)));
    counter!(names::SCALING_SHED.name, "container" => label()).absolute(one.shed);
}
