use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use seawall_sync::RwLock;
use seawall_sync::rwlock::WriteGuard;

use crate::{Watched, ask_and_give_up, model};

#[test]
fn readers_see_all_that_a_writer_wrote() {
    model(|| {
        let lock = Arc::new(RwLock::new(Watched::default()));
        let readers = [(); 2].map(|()| {
            let lock = lock.clone();
            thread::spawn(move || block_on(lock.read_plain()).get())
        });
        lock.blocking_write_plain().increment();
        for reader in readers {
            assert!(reader.join().unwrap() <= 1);
        }
        assert_eq!(lock.try_write().expect("nobody holds it").get(), 1);
    });
}

#[test]
fn a_writer_that_gives_up_meets_a_reader_that_releases() {
    model(|| {
        let lock = Arc::new(RwLock::new(Watched::default()));
        let reading = lock.try_read().expect("it is new");
        let [fickle, steady] = [lock.clone(), lock.clone()];
        let giving_up = thread::spawn(move || {
            if let Some(guard) = ask_and_give_up(fickle.write_plain()) {
                guard.increment();
            }
        });
        let waiting = thread::spawn(move || block_on(steady.read_plain()).get());
        drop(reading);
        giving_up.join().unwrap();
        assert!(waiting.join().unwrap() <= 1);
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn a_writer_that_becomes_a_reader_lets_readers_in() {
    model(|| {
        let lock = Arc::new(RwLock::new(Watched::default()));
        let writer = lock.try_write().expect("it is new");
        let other = lock.clone();
        let waiting = thread::spawn(move || block_on(other.read_plain()).get());
        writer.increment();
        let reader = WriteGuard::downgrade(writer);
        assert_eq!((reader.get(), waiting.join().unwrap()), (1, 1));
        drop(reader);
        assert!(lock.try_write().is_some());
    });
}
