package dev.seawall;

import java.util.concurrent.locks.ReentrantLock;

/**
 * A fair, reentrant lock that refuses a request which cannot afford to wait for it.
 *
 * <pre>{@code
 * orders.lock(context); // throws Rejected, at once, if that would take too long
 * try {
 *     ...
 * } finally {
 *     orders.unlock();
 * }
 * }</pre>
 */
public final class LatencyAwareLock extends WatchedLock {
    private final ReentrantLock lock;

    /**
     * A lock that nobody has.
     *
     * @param stage its number in refusals, from {@link Stage#FIRST_OWN} on
     * @param name what it is called in messages
     */
    public LatencyAwareLock(Stage stage, String name) {
        this(new LockWatch(stage, name), new ReentrantLock(true));
    }

    private LatencyAwareLock(LockWatch watch, ReentrantLock lock) {
        super(watch, lock, false);
        this.lock = lock;
    }

    @Override
    boolean isHeld() {
        return lock.isHeldByCurrentThread();
    }

    @Override
    boolean isLast() {
        return lock.getHoldCount() == 1;
    }
}
