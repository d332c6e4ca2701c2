package dev.seawall;

/**
 * A place where a request can wait or be refused.
 *
 * @param number 0 to 255; numbers below {@link #FIRST_OWN} are Seawall's
 */
public record Stage(int number) {
    /** The client's own queue, before a credit allowed the request to leave. */
    public static final Stage CLIENT = new Stage(1);

    /** The server's entry. */
    public static final Stage ADMISSION = new Stage(2);

    /** Received bytes that no thread has read yet. */
    public static final Stage SOCKET = new Stage(3);

    /** The queue of requests whose handlers could run. */
    public static final Stage RUN_QUEUE = new Stage(4);

    /** The handler itself, or what it called. */
    public static final Stage HANDLER = new Stage(5);

    /** The CPU: the process could run, and others do. */
    public static final Stage CPU = new Stage(7);

    /** The world stands still: a garbage collector has stopped all Java threads. */
    public static final Stage PAUSE = new Stage(10);

    /** The number of the first stage that an application may name. */
    public static final int FIRST_OWN = 16;

    private static final String[] NAMES = {
        "none", "client", "admission", "socket", "run_queue", "handler", "memory", "cpu", "connection", "gate", "pause",
    };

    /**
     * Checks the range.
     *
     * @param number 0 to 255
     */
    public Stage {
        if (number < 0 || number > 0xff) {
            throw new IllegalArgumentException("stage " + number + " is out of range; allowed is 0 to 255");
        }
    }

    @Override
    public String toString() {
        return number < NAMES.length ? NAMES[number] : "stage " + number;
    }
}
