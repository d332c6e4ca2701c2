use std::convert::Infallible;
use std::future::ready;

use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_sync::{Gate, Pool};

use crate::{Watched, ask_and_give_up, model};

#[test]
fn a_value_is_used_by_one_at_a_time_and_made_once() {
    model(|| {
        let pool = Pool::<_, Infallible>::new(1, || ready(Ok(Watched::default())));
        let others = [(); 2].map(|()| {
            let pool = pool.clone();
            thread::spawn(move || block_on(pool.get_plain()).unwrap().increment())
        });
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(block_on(pool.get_plain()).unwrap().get(), 2);
    });
}

#[test]
fn one_who_gives_up_leaves_the_value_to_others() {
    model(|| {
        let pool = Pool::<_, Infallible>::new(1, || ready(Ok(Watched::default())));
        let value = block_on(pool.get_plain()).unwrap();
        let [fickle, steady] = [pool.clone(), pool.clone()];
        let giving_up = thread::spawn(move || drop(ask_and_give_up(fickle.get_plain())));
        let waiting = thread::spawn(move || block_on(steady.get_plain()).unwrap().increment());
        drop(value);
        giving_up.join().unwrap();
        waiting.join().unwrap();
        assert_eq!(block_on(pool.get_plain()).unwrap().get(), 1);
    });
}

#[test]
fn a_gate_lets_one_at_a_time_in() {
    model(|| {
        let gate = Arc::new((Gate::new(1), Watched::default()));
        let pass = |gate: &(Gate, Watched)| {
            let ctx = Context::new(Claims::default(), Instant::ORIGIN);
            gate.0.blocking_run(&ctx, || gate.1.increment()).expect("it has time without end");
        };
        let other = gate.clone();
        let passing = thread::spawn(move || pass(&other));
        pass(&gate);
        passing.join().unwrap();
        assert_eq!(gate.1.get(), 2);
    });
}
