package dev.seawall;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/** A lock whose waits are predicted, around one that is fair. */
abstract class WatchedLock implements Lock {
    final LockWatch watch;
    final boolean shared;
    private final Lock lock;

    WatchedLock(LockWatch watch, Lock lock, boolean shared) {
        this.watch = watch;
        this.lock = lock;
        this.shared = shared;
    }

    /** The thread has the lock already, or one that includes it: nobody waits, and nobody's turn begins. */
    abstract boolean isHeld();

    /** The thread will have nothing of the lock any more once it has given this back. */
    abstract boolean isLast();

    /**
     * Takes the lock, unless that would take longer than the request has left.
     *
     * @param context of the request; what it waits is charged to it
     * @throws Rejected at once, with the predicted wait
     */
    public void lock(Context context) throws Rejected {
        if (isHeld()) {
            lock.lock();
        } else if (takeNow()) {
            watch.enter(shared);
        } else {
            context.charge(await(watch.join(context, shared)));
        }
    }

    /** Takes the lock, however long that takes. */
    @Override
    public void lock() {
        if (isHeld()) {
            lock.lock();
        } else if (takeNow()) {
            watch.enter(shared);
        } else {
            await(watch.join(shared));
        }
    }

    /** Takes the lock with a ticket; how long that took. */
    private long await(long ticket) {
        try {
            lock.lock();
        } catch (RuntimeException | Error gone) {
            watch.leave(ticket);
            throw gone;
        }
        return watch.enter(ticket, shared);
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        if (isHeld()) {
            lock.lockInterruptibly();
        } else if (takeNow()) {
            watch.enter(shared);
        } else {
            long ticket = watch.join(shared);
            try {
                lock.lockInterruptibly();
            } catch (InterruptedException | RuntimeException | Error gone) {
                watch.leave(ticket);
                throw gone;
            }
            watch.enter(ticket, shared);
        }
    }

    @Override
    public boolean tryLock() {
        boolean held = isHeld();
        boolean taken = lock.tryLock();
        if (taken && !held) {
            watch.enter(shared);
        }
        return taken;
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        if (isHeld()) {
            return lock.tryLock(time, unit);
        }
        if (takeNow()) {
            watch.enter(shared);
            return true;
        }
        long ticket = watch.join(shared);
        boolean taken = false;
        try {
            taken = lock.tryLock(time, unit);
        } finally {
            if (taken) {
                watch.enter(ticket, shared);
            } else {
                watch.leave(ticket);
            }
        }
        return taken;
    }

    @Override
    public void unlock() {
        // Before the next one has it: turns do not overlap. Who does not hold it holds none of it last.
        if (isLast()) {
            watch.exit();
        }
        lock.unlock();
    }

    /**
     * Says what the holder does with the lock: how long that still takes is predicted from how long it took before.
     *
     * @param label what it does, such as {@code "rebalance"}
     * @param amount how much of it: what the critical section iterates over
     * @throws IllegalMonitorStateException if the thread does not hold the lock
     */
    public void announce(String label, long amount) {
        if (!isHeld()) {
            throw new IllegalMonitorStateException("announce() is for who holds the lock");
        }
        watch.announce(label, amount);
    }

    /**
     * Not supported: who waits for a condition gives the lock back meanwhile.
     *
     * @throws UnsupportedOperationException always
     */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("latency-aware locks have no conditions");
    }

    /** Takes what is free, and passes nobody who waits. */
    private boolean takeNow() {
        boolean interrupted = Thread.interrupted();
        try {
            return lock.tryLock(0, TimeUnit.NANOSECONDS);
        } catch (InterruptedException raced) {
            interrupted = true;
            return false;
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    @Override
    public String toString() {
        return watch.toString();
    }
}
