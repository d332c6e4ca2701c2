package dev.seawall.internal;

/** What the native library does. Not for programs: it changes with the library. */
public final class Native {
    static {
        Library.load();
        attach(System.getProperty("seawall.agent", ""));
    }

    private Native() {}

    /** Who is called for calls. */
    @FunctionalInterface
    public interface Dispatcher {
        /**
         * Serves a call; times are nanoseconds, and points in time those of System.nanoTime(); negative for none.
         *
         * @return the result; null if the native side was told how it ended
         */
        byte[] dispatch(int method, long id, long arrived, long deadline, long budget, int priority, int tenant,
                int attempt, boolean droppable, byte[] payload);
    }

    /** Has pauses of the collector predicted from now on. */
    private static native void attach(String options);

    public static native long[] pauses();

    public static native long serverStart(String config, int[] numbers, String[] names, boolean[] repeatable,
            Dispatcher dispatcher);

    public static native String serverAddress(long server);

    public static native void serverWork(long server);

    public static native void serverStop(long server, long graceNanos);

    public static native long[] serverCounts(long server);

    public static native String[] serverRefusals(long server);

    public static native boolean charge(long nanos);

    public static native void fail(int code, String message);

    public static native void refuse(int stage, long predictedNanos, long remainingNanos, long retryAfterNanos);

    public static native long clientOpen(String config);

    public static native void clientCall(long client, long id, int method, byte[] payload, long deadlineNanos,
            long budgetNanos, int priority, int tenant, boolean droppable, boolean idempotent);

    public static native void clientCancel(long client, long id);

    public static native byte[] clientNext(long client, long[] outcome);

    public static native void clientClose(long client);

    public static native long lockOpen();

    public static native void lockClose(long lock);

    public static native long lockJoin(long lock, long leftNanos, boolean shared);

    public static native void lockLeave(long lock, long ticket);

    public static native long lockEnter(long lock, long ticket, boolean shared);

    public static native void lockExit(long lock);

    public static native void lockAnnounce(long lock, String label, long amount);

    public static native String[] lockForecasts(long lock);
}
