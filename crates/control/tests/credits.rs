//! Credits are conserved, whatever happens to clients, connections and messages.

use proptest::prelude::*;
use seawall_control::harness::model::{Model, Op, Reached};

fn op() -> impl Strategy<Value = Op> {
    let n = any::<u8>();
    prop_oneof![
        2 => (n, n).prop_map(|(tenant, weight)| Op::Connect { tenant, weight }),
        1 => n.prop_map(Op::Cut),
        8 => n.prop_map(Op::Submit),
        1 => n.prop_map(Op::TellDemand),
        8 => n.prop_map(Op::DeliverRequest),
        8 => (n, n).prop_map(|(client, how)| Op::Finish(client, how)),
        8 => (n, n).prop_map(|(client, which)| Op::DeliverReply(client, which)),
        1 => n.prop_map(Op::LosePush),
        4 => (0u8..24).prop_map(Op::Tick),
        1 => n.prop_map(Op::Tick),
        2 => n.prop_map(Op::Delay),
        2 => Just(Op::Timeout),
    ]
}

fn run(seed: u64, cores: u32, window_max: u32, ops: Vec<Op>) -> Model {
    let mut model = Model::new(seed, cores, window_max);
    ops.into_iter().for_each(|op| model.apply(op));
    model
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        max_shrink_iters: 20_000,
        ..Default::default()
    })]

    #[test]
    fn conserved_under_any_history(
        seed: u64,
        cores in 1u32..12,
        window_max in 1u32..80,
        ops in prop::collection::vec(op(), 0..600),
    ) {
        run(seed, cores, window_max, ops).finish_all();
    }

    #[test]
    fn nobody_starves_once_the_overload_ends(
        seed: u64,
        cores in 1u32..4,
        // A lost message would be a cut connection: TCP loses nothing else.
        ops in prop::collection::vec(
            op().prop_filter("loses", |op| !matches!(op, Op::LosePush(_))),
            0..300,
        ),
    ) {
        run(seed, cores, 64, ops).settle();
    }

    #[test]
    fn who_waits_for_credits_is_known_to(
        seed: u64,
        cores in 1u32..4,
        ops in prop::collection::vec(
            op().prop_filter("loses", |op| !matches!(op, Op::LosePush(_))),
            0..300,
        ),
    ) {
        run(seed, cores, 4, ops).deliver_all();
    }

    #[test]
    fn cheats_leak_nothing_either(
        seed: u64,
        ops in prop::collection::vec(
            prop_oneof![6 => op(), 1 => any::<u8>().prop_map(Op::Cheat)], 0..400),
    ) {
        run(seed, 2, 16, ops).finish_all();
    }
}

#[test]
fn a_cheat_is_refused() {
    let mut model = Model::new(1, 1, 64);
    model.apply(Op::Connect { tenant: 0, weight: 1 });
    for _ in 0..200 {
        model.apply(Op::Cheat(0));
        model.apply(Op::DeliverRequest(0));
    }
    assert!(model.reached.cheats_refused > 100);
}

/// Random histories come to all the places that the checks are about.
#[test]
fn histories_reach_every_mechanism() {
    let mut rng = seawall_control::Rng::new(3);
    let mut sum = [0; 5];
    for seed in 0..200 {
        let bytes: Vec<u8> = (0..6_000).map(|_| rng.next_u64() as u8).collect();
        let mut model = Model::new(seed, 1 + seed as u32 % 4, 64);
        let mut bytes = bytes.as_slice();
        while let Some(op) = Op::read(&mut bytes) {
            model.apply(op);
        }
        let Reached { cheats_refused, grants, revocations, shrunk, drained } = model.reached;
        for (sum, count) in
            sum.iter_mut().zip([cheats_refused, grants, revocations, shrunk, drained])
        {
            *sum += count;
        }
    }
    assert!(sum.iter().all(|count| *count > 50), "cheats, grants, revocations, … = {sum:?}");
}
