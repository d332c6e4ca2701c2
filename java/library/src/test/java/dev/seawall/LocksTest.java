package dev.seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class LocksTest {
    private static final Stage STAGE = new Stage(16);

    private static Context within(long millis) {
        return Context.within(Duration.ofMillis(millis));
    }

    /** Somebody who holds a lock until told otherwise, after so long. */
    private static final class Holder implements AutoCloseable {
        private final CountDownLatch held = new CountDownLatch(1);
        private final CountDownLatch end = new CountDownLatch(1);
        private final Thread thread;

        Holder(Lock lock, Runnable says) throws InterruptedException {
            thread = new Thread(() -> {
                lock.lock();
                try {
                    says.run();
                    held.countDown();
                    end.await();
                } catch (InterruptedException gone) {
                    throw new IllegalStateException(gone);
                } finally {
                    lock.unlock();
                }
            });
            thread.start();
            held.await();
        }

        @Override
        public void close() throws InterruptedException {
            end.countDown();
            thread.join();
        }
    }

    /** Holds that take 100 ms each, so that the lock knows. */
    private static void teach(Lock lock) throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            lock.lock();
            Thread.sleep(100);
            lock.unlock();
        }
    }

    @Test
    void whoCannotWaitIsRefusedAtOnce() throws Exception {
        LatencyAwareLock lock = new LatencyAwareLock(STAGE, "orders");
        teach(lock);
        lock.lock(within(1)); // it is free
        lock.lock(within(1)); // and reentrant
        lock.unlock();
        lock.unlock();
        try (Holder holder = new Holder(lock, () -> {})) {
            Rejected rejected = assertThrows(Rejected.class, () -> lock.lock(within(20)));
            assertEquals(STAGE, rejected.stage());
            assertTrue(rejected.predicted().toMillis() >= 50, rejected.toString());
            assertTrue(rejected.getMessage().startsWith("orders"), rejected.getMessage());
            assertFalse(lock.tryLock());
            assertFalse(lock.tryLock(1, TimeUnit.MILLISECONDS));
        }
        assertTrue(lock.tryLock());
        lock.unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(IllegalMonitorStateException.class, () -> lock.announce("nothing", 1));
    }

    @Test
    void aWaitIsCharged() throws Exception {
        LatencyAwareLock lock = new LatencyAwareLock(STAGE, "orders");
        Context context = within(10_000);
        Thread waiter;
        try (Holder holder = new Holder(lock, () -> {})) {
            waiter = new Thread(() -> {
                try {
                    lock.lock(context);
                    lock.unlock();
                } catch (Rejected unexpected) {
                    throw new IllegalStateException(unexpected);
                }
            });
            waiter.start();
            Thread.sleep(200);
        }
        waiter.join();
        assertTrue(context.remaining().toMillis() <= 9_900, context.remaining().toString());
    }

    @Test
    void readersShareAndWritersDoNot() throws Exception {
        LatencyAwareReadWriteLock lock = new LatencyAwareReadWriteLock(STAGE, "ring");
        teach(lock.writeLock());
        try (Holder reader = new Holder(lock.readLock(), () -> {})) {
            lock.readLock().lock(within(1));
            lock.readLock().unlock();
            assertThrows(Rejected.class, () -> lock.writeLock().lock(within(20)));
        }
        lock.writeLock().lock(within(1));
        lock.readLock().lock(within(1)); // a writer may read, and go on reading
        lock.writeLock().unlock();
        lock.readLock().lock(within(1));
        lock.readLock().unlock();
        inAnotherThread(lock.readLock());
        assertThrows(IllegalMonitorStateException.class, () -> lock.writeLock().unlock());
        assertThrows(Rejected.class, () -> inAnotherThread(lock.writeLock()));
        lock.readLock().unlock();
        inAnotherThread(lock.writeLock());
    }

    /** Who waits has it at once when another leaves it: these are two turns, not a long one. */
    @Test
    void turnsFollowOneAnother() throws Exception {
        LatencyAwareLock lock = new LatencyAwareLock(STAGE, "orders");
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                for (int turn = 0; turn < 100; turn++) {
                    lock.lock();
                    LockSupport.parkNanos(1_000_000);
                    lock.unlock();
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        try (Holder holder = new Holder(lock, () -> {})) {
            Rejected rejected = assertThrows(Rejected.class, () -> lock.lock(within(0)));
            assertTrue(rejected.predicted().toMillis() < 200, rejected.getMessage());
        }
    }

    private static void inAnotherThread(WatchedLock lock) throws Exception {
        Rejected[] refused = new Rejected[1];
        Thread thread = new Thread(() -> {
            try {
                lock.lock(within(20));
                lock.unlock();
            } catch (Rejected rejected) {
                refused[0] = rejected;
            }
        });
        thread.start();
        thread.join();
        if (refused[0] != null) {
            throw refused[0];
        }
    }

    /** ETLIB's: how long the ring is held follows from how many nodes there are to rebalance. */
    @Test
    void whatTheHolderDoesIsKnown() throws Exception {
        LatencyAwareReadWriteLock lock = new LatencyAwareReadWriteLock(STAGE, "ring");
        for (int nodes : new int[] {100, 400, 100, 400}) {
            lock.writeLock().lock();
            lock.writeLock().announce("rebalance", nodes);
            Thread.sleep(nodes);
            lock.writeLock().unlock();
        }
        try (Holder holder = new Holder(lock.writeLock(), () -> lock.writeLock().announce("rebalance", 300))) {
            Rejected rejected = assertThrows(Rejected.class, () -> lock.readLock().lock(within(20)));
            long predicted = rejected.predicted().toMillis();
            assertTrue(predicted > 150 && predicted < 450, rejected.getMessage());
        }
    }

    @Test
    void whoIsInterruptedIsNotWaitedFor() throws Exception {
        LatencyAwareLock lock = new LatencyAwareLock(STAGE, "orders");
        try (Holder holder = new Holder(lock, () -> {})) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, lock::lockInterruptibly);
            assertThrows(UnsupportedOperationException.class, lock::newCondition);
        }
        lock.lock();
        lock.unlock();
    }
}
