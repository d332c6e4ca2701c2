//! Every algorithm, and every variant of one, lives through arbitrary histories.

use std::sync::Arc;

use proptest::prelude::*;
use seawall_control::admission;
use seawall_control::controller::Algorithm;
use seawall_control::harness::Parties;
use seawall_control::harness::model::Op;

/// What differs from the defaults.
const VARIANTS: [&str; 6] = [
    "algorithm = 'codel'\ncodel.variant = 'threshold'",
    "algorithm = 'seda'\nseda.server_drop_delay = '200us'",
    "algorithm = 'dagor'\ndagor.variant = 'released'",
    "algorithm = 'protego'\nprotego.variant = 'released'",
    "algorithm = 'svalinn'\nsvalinn.variant = 'released'",
    "algorithm = 'svalinn'\nsvalinn.utility = { drops = 0.1 }",
];

fn algorithms() -> Vec<Arc<dyn Algorithm>> {
    let named = admission::NAMES.into_iter().map(admission::Config::named);
    let variants = VARIANTS.into_iter().map(|text| toml::from_str(text).unwrap());
    named.chain(variants).map(|config| config.build().unwrap()).collect()
}

fn live(mut parties: Parties, mut bytes: &[u8]) {
    while let Some(op) = Op::read(&mut bytes) {
        parties.apply(op);
    }
    parties.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 300, ..Default::default() })]

    #[test]
    fn nothing_is_lost_and_nobody_starves(
        seed: u64,
        bytes in prop::collection::vec(any::<u8>(), 0..1_500),
    ) {
        for algorithm in algorithms() {
            live(Parties::new(algorithm.clone(), seed), &bytes);
            live(Parties::silent(algorithm, seed), &bytes);
        }
    }
}
