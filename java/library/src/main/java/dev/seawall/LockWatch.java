package dev.seawall;

import dev.seawall.internal.Native;
import java.lang.ref.Cleaner;

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
    }

    /** Has it after a wait, in nanoseconds. */
    long enter(long ticket, boolean shared) {
        return Native.lockEnter(handle, ticket, shared);
    }

    void leave(long ticket) {
        Native.lockLeave(handle, ticket);
    }

    void exit() {
        Native.lockExit(handle);
    }

    void announce(String label, long amount) {
        Native.lockAnnounce(handle, label, amount);
    }

    @Override
    public String toString() {
        return name;
    }
}
