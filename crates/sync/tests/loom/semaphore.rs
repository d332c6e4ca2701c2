use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use seawall_sync::Semaphore;

use crate::{ask_and_give_up, model};

#[test]
fn those_who_ask_for_many_and_for_few_all_get_them() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let others = [2, 1].map(|permits| {
            let semaphore = semaphore.clone();
            thread::spawn(move || drop(block_on(semaphore.acquire_many_plain(permits))))
        });
        drop(semaphore.blocking_acquire_plain());
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(semaphore.available_permits(), 2);
        assert!(semaphore.try_acquire_many(2).is_some());
    });
}

#[test]
fn one_who_gives_up_many_meets_permits_that_are_added() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let [fickle, steady] = [semaphore.clone(), semaphore.clone()];
        let giving_up = thread::spawn(move || drop(ask_and_give_up(fickle.acquire_many_plain(2))));
        let waiting = thread::spawn(move || drop(block_on(steady.acquire_plain())));
        semaphore.add_permits(1);
        giving_up.join().unwrap();
        waiting.join().unwrap();
        assert_eq!(semaphore.available_permits(), 1);
        assert!(semaphore.try_acquire().is_some());
    });
}
