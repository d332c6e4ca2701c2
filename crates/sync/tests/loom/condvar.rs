use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use seawall_sync::{Condvar, Mutex};

use crate::{Watched, ask_and_give_up, model};

#[derive(Debug, Default)]
struct Shared {
    number: Mutex<Watched>,
    changed: Condvar,
}

/// Waits until somebody has incremented the number.
async fn incremented(shared: &Shared) {
    let mut number = shared.number.lock_plain().await;
    while number.get() == 0 {
        number = shared.changed.wait_plain(number).await;
    }
}

#[test]
fn no_notification_is_missed() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let other = shared.clone();
        let waiting = thread::spawn(move || block_on(incremented(&other)));
        shared.number.blocking_lock_plain().increment();
        shared.changed.notify_one();
        waiting.join().unwrap();
    });
}

#[test]
fn one_who_gives_up_passes_its_notification_on() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let [fickle, steady] = [shared.clone(), shared.clone()];
        let giving_up = thread::spawn(move || {
            ask_and_give_up(incremented(&fickle));
        });
        let waiting = thread::spawn(move || block_on(incremented(&steady)));
        giving_up.join().unwrap();
        shared.number.blocking_lock_plain().increment();
        shared.changed.notify_one();
        waiting.join().unwrap();
    });
}

#[test]
fn one_who_gives_up_meets_its_notification() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let steady = shared.clone();
        let waiting = thread::spawn(move || block_on(incremented(&steady)));
        let fickle = shared.clone();
        let giving_up = thread::spawn(move || {
            ask_and_give_up(incremented(&fickle));
        });
        shared.number.blocking_lock_plain().increment();
        shared.changed.notify_one();
        giving_up.join().unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn all_are_notified() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let others = [(); 2].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || block_on(incremented(&shared)))
        });
        shared.number.blocking_lock_plain().increment();
        shared.changed.notify_all();
        for other in others {
            other.join().unwrap();
        }
    });
}
