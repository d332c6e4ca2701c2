package dev.seawall;

import dev.seawall.internal.Native;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;

/** What happens at one lock, told to the native side, which predicts who waits there for how long. */
final class LockWatch {
    private static final Cleaner CLEANER = Cleaner.create();

    private final long handle = Native.lockOpen();
    private final Stage stage;
    private final String name;

    LockWatch(Stage stage, String name) {
        this.stage = stage;
        this.name = name;
        long closing = handle;
        CLEANER.register(this, () -> Native.lockClose(closing));
    }

    // The fences keep the handle from being closed while it is used.

    /** A ticket for one who waits. */
    long join(Context context, boolean shared) throws Rejected {
        long left = context.limitNanos();
        long ticket = Native.lockJoin(handle, left, shared);
        if (ticket < 0) {
            long predicted = -1 - ticket;
            throw new Rejected(stage, predicted, left, predicted, name + " is expected to be free in "
                    + predicted / 1000 + " us, and the request has " + left / 1000 + " us");
        }
        return ticket;
    }

    /** A ticket for one that is not refused. */
    long join(boolean shared) {
        return Native.lockJoin(handle, -1, shared);
    }

    /** Has it without a wait. */
    void enter(boolean shared) {
        Native.lockEnter(handle, -1, shared);
        Reference.reachabilityFence(this);
    }

    /** Has it after a wait, in nanoseconds. */
    long enter(long ticket, boolean shared) {
        long waited = Native.lockEnter(handle, ticket, shared);
        Reference.reachabilityFence(this);
        return waited;
    }

    void leave(long ticket) {
        Native.lockLeave(handle, ticket);
        Reference.reachabilityFence(this);
    }

    void exit() {
        Native.lockExit(handle);
        Reference.reachabilityFence(this);
    }

    void announce(String label, long amount) {
        Native.lockAnnounce(handle, label, amount);
        Reference.reachabilityFence(this);
    }

    @Override
    public String toString() {
        return name;
    }
}
