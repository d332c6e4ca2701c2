//! Pauses whose times are known.

use alloc::string::ToString;

use proptest::prelude::*;

use super::*;
use crate::random::Rng;

const MB: u64 = 1 << 20;

fn at(ms: u64) -> Instant {
    Instant::from_micros(ms * 1_000)
}

fn young(eden: u64) -> Collection {
    let before = Spaces { eden: eden * MB, ..Spaces::default() };
    Collection { kind: Kind::Young, before, workers: 2 }
}

fn pauses(fit: Fit) -> Pauses {
    Pauses::new(&Config { fit, ..Config::default() }, 7).unwrap()
}

/// A pause that takes `ms` and of which a tenth survives.
fn pause(pauses: &mut Pauses, start: &mut u64, eden: u64, ms: u64) -> Option<Duration> {
    *start += 1_000;
    let predicted = pauses.on_start(at(*start), &young(eden));
    let after = Spaces { survivor: eden * MB / 10, ..Spaces::default() };
    assert_eq!(
        pauses.on_finish(at(*start + ms), Kind::Young, &after),
        Some(Duration::from_millis(ms))
    );
    pauses.learn();
    predicted
}

#[test]
fn nothing_is_said_before_the_first_of_a_kind() {
    let mut pauses = pauses(Fit::Ransac);
    assert_eq!((pauses.rest(at(0)), pauses.on_start(at(1_000), &young(64))), (None, None));
    assert_eq!(pauses.rest(at(1_030)), Some(Duration::from_millis(30)), "as long again");
    pauses.on_finish(at(1_040), Kind::Young, &Spaces::default());
    pauses.learn();
    assert_eq!((pauses.rest(at(1_041)), pauses.precision(Fit::Ransac).count()), (None, 0));
    let full = Collection { kind: Kind::Full, ..young(64) };
    assert_eq!(pauses.on_start(at(2_000), &full), None);
    assert_eq!(
        pauses.on_finish(at(2_500), Kind::Full, &Spaces::default()),
        Some(Duration::from_millis(500))
    );
    pauses.learn();
    let known = pauses.on_start(at(3_000), &full);
    assert_eq!(known, Some(Duration::from_millis(500)));
}

#[test]
fn one_that_outlasts_its_prediction_does_so_as_long_again() {
    let (mut pauses, mut start) = (pauses(Fit::Ols), 0);
    for _ in 0..4 {
        pause(&mut pauses, &mut start, 100, 20);
    }
    pauses.on_start(at(10_000), &young(100));
    let rests = [0, 5, 20, 24, 40].map(|ms| pauses.rest(at(10_000 + ms)).unwrap().as_millis());
    assert_eq!(rests, [20, 15, 0, 4, 20]);
}

#[test]
fn a_few_pauses_that_others_made_longer_do_not_mislead_ransac() {
    let mut rng = Rng::new(3);
    let (mut ransac, mut ols) = (pauses(Fit::Ransac), pauses(Fit::Ols));
    let (mut start, mut off) = (0, [0_u64; 2]);
    for round in 0..400 {
        let eden = 50 + rng.below(200);
        let noise = if rng.chance(0.15) { 60 + rng.below(60) } else { 0 };
        let clean = 4 + eden / 5;
        start += 10_000;
        for (index, pauses) in [&mut ransac, &mut ols].into_iter().enumerate() {
            let mut start = start;
            let predicted = pause(pauses, &mut start, eden, clean + noise);
            if round >= 100 && noise == 0 {
                let wrong = predicted.unwrap().abs_diff(Duration::from_millis(clean));
                off[index] += u64::from(wrong > Duration::from_millis(4));
            }
        }
    }
    assert!(off[0] * 4 < off[1], "{off:?}");
    let [by_ransac, by_ols] = Fit::ALL.map(|fit| ransac.precision(fit));
    assert_eq!((by_ransac.count(), by_ols.count()), (399, 399), "both are always judged");
}

#[test]
fn a_pause_may_turn_out_to_be_of_another_kind() {
    let (mut pauses, mut start) = (pauses(Fit::Ransac), 0);
    pause(&mut pauses, &mut start, 100, 20);
    pauses.on_start(at(2_000), &Collection { kind: Kind::Full, ..young(100) });
    pauses.on_finish(at(2_300), Kind::Full, &Spaces::default());
    pauses.learn();
    pauses.on_start(at(3_000), &young(100));
    assert_eq!(pauses.rest(at(3_005)), Some(Duration::from_millis(15)));
    pauses.on_kind(Kind::Full);
    assert_eq!(pauses.rest(at(3_005)), Some(Duration::from_millis(295)));
    pauses.on_finish(at(3_300), Kind::Full, &Spaces::default());
    assert_eq!(pauses.precision(Fit::Ransac).within(Duration::ZERO), Some(1.0));
}

#[test]
fn a_finish_without_a_start_is_none() {
    let mut pauses = pauses(Fit::Ransac);
    assert_eq!(pauses.on_finish(at(5), Kind::Young, &Spaces::default()), None);
    let config = Config { window: 7, ..Config::default() };
    let error = Pauses::new(&config, 1).unwrap_err().to_string();
    assert!(error.contains("pause.window"), "{error}");
}

proptest! {
    #[test]
    fn whatever_comes_nothing_overflows(
        events in prop::collection::vec(
            (any::<u64>(), any::<[u64; 3]>(), any::<u16>(), 0..3_usize),
            1..60,
        )
    ) {
        let mut pauses = Pauses::new(&Config { window: 8, ..Config::default() }, 1).unwrap();
        for (time, [eden, survivor, old], workers, kind) in events {
            let kind = [Kind::Young, Kind::Full, Kind::Mark][kind];
            let before = Spaces { eden, survivor, old };
            let now = Instant::from_nanos(time);
            pauses.on_start(now, &Collection { kind, before, workers });
            prop_assert!(pauses.rest(now).is_some());
            let end = Instant::from_nanos(time.rotate_left(7));
            pauses.on_finish(end, kind, &Spaces { eden: old, ..before });
            pauses.learn();
            prop_assert_eq!(pauses.rest(now), None);
        }
    }
}
