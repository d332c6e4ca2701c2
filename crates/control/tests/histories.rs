//! Every algorithm, and every variant of one, lives through arbitrary histories.

use std::sync::Arc;

use proptest::prelude::*;
use seawall_control::admission;
use seawall_control::controller::Algorithm;
use seawall_control::harness::Parties;
use seawall_control::harness::model::Op;

/// What differs from the defaults.
const VARIANTS: [&str; 12] = [
    "algorithm = 'vegas'\nvegas.windowed = true",
    "algorithm = 'gradient2'\ngradient2.windowed = false",
    "algorithm = 'envoy'\nenvoy.min_concurrency_limit = 1\nenvoy.min_rtt_interval = '1ms'",
    "algorithm = 'envoy'\nenvoy.fixed_value = '100us'",
    "algorithm = 'bbr'\nbbr.cpu_threshold = 0.0\nbbr.resolution = '1us'",
    "algorithm = 'bbr'\nbbr.variant = 'aegis'\nbbr.cpu_threshold = 0.0",
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
    named.chain(variants).map(|config| patient(config).build().unwrap()).collect()
}

fn live(mut parties: Parties, mut bytes: &[u8]) {
    while let Some(op) = Op::read(&mut bytes) {
        parties.apply(op);
    }
    parties.settle();
}

/// What somebody who was refused everything would wait for is a matter of chance, and of minutes.
fn patient(mut config: admission::Config) -> admission::Config {
    config.sre.drop_max = 0.9;
    config
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
