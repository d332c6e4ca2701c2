package dev.seawall;

import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * A fair lock for readers and writers that refuses a request which cannot afford to wait for it.
 *
 * <p>Takes the place of a {@link ReentrantReadWriteLock}: code that knows no {@link Context} waits as ever, and may say
 * {@linkplain Side#announce what it does} while it holds it, so that those who come with a context are told how long that
 * takes.
 */
public final class LatencyAwareReadWriteLock implements ReadWriteLock {
    private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock(true);
    private final Side read;
    private final Side write;

    /**
     * A lock that nobody has.
     *
     * @param stage its number in refusals, from {@link Stage#FIRST_OWN} on
     * @param name what it is called in messages
     */
    public LatencyAwareReadWriteLock(Stage stage, String name) {
        LockWatch watch = new LockWatch(stage, name);
        read = new Side(watch, lock, lock.readLock(), true);
        write = new Side(watch, lock, lock.writeLock(), false);
    }

    /**
     * The lock of readers, who share it.
     *
     * @return the same each time
     */
    @Override
    public Side readLock() {
        return read;
    }

    /**
     * The lock of writers.
     *
     * @return the same each time
     */
    @Override
    public Side writeLock() {
        return write;
    }

    /** One of the two locks. */
    public static final class Side extends WatchedLock {
        private final ReentrantReadWriteLock both;

        Side(LockWatch watch, ReentrantReadWriteLock both, Lock lock, boolean shared) {
            super(watch, lock, shared);
            this.both = both;
        }

        @Override
        boolean isHeld() {
            return both.isWriteLockedByCurrentThread() || both.getReadHoldCount() > 0;
        }

        @Override
        boolean isLast() {
            int own = shared ? both.getReadHoldCount() : both.getWriteHoldCount();
            return own == 1 && both.getReadHoldCount() + both.getWriteHoldCount() == 1;
        }

        @Override
        public void unlock() {
            // A writer that goes on as a reader: its turn ends, and one begins that others share.
            if (!shared && both.getWriteHoldCount() == 1 && both.getReadHoldCount() > 0) {
                watch.exit();
                watch.enter(true);
            }
            super.unlock();
        }
    }
}
