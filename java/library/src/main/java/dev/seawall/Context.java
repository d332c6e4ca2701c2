package dev.seawall;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What is known of a call: who asks, and how long it is still worth working on.
 *
 * <p>May be used from any thread.
 */
public final class Context {
    private static final ThreadLocal<Context> CURRENT = new ThreadLocal<>();

    private final int method;
    private final long id;
    private final long arrivedNanos;
    private final long deadlineNanos;
    private final boolean hasDeadline;
    private final long budgetNanos;
    private final int priority;
    private final int tenant;
    private final int attempt;
    private final boolean droppable;
    private final AtomicLong chargedNanos = new AtomicLong();

    /** Of a call that came then and is to be answered then, by System.nanoTime(); negative for no deadline. */
    Context(int method, long id, long arrivedNanos, long deadlineNanos, long budgetNanos, int priority, int tenant,
            int attempt, boolean droppable) {
        this.method = method;
        this.id = id;
        this.arrivedNanos = arrivedNanos;
        this.hasDeadline = deadlineNanos >= 0;
        this.deadlineNanos = deadlineNanos;
        this.budgetNanos = budgetNanos;
        this.priority = priority;
        this.tenant = tenant;
        this.attempt = attempt;
        this.droppable = droppable;
    }

    /**
     * A context for work of the program's own, such as in tests: nobody asked for it but the program.
     *
     * @param budget how long it may wait at stages
     * @return a context without a deadline
     */
    public static Context within(Duration budget) {
        return new Context(0, 0, System.nanoTime(), -1, budget.toNanos(), 128, 0, 0, true);
    }

    /**
     * The context of the call that the current thread handles.
     *
     * @return nothing on other threads
     */
    public static Optional<Context> current() {
        return Optional.ofNullable(CURRENT.get());
    }

    /** What the thread does until the next call of this is done for this call. */
    static void enter(Context context) {
        CURRENT.set(context);
    }

    /**
     * The number of the method that is called.
     *
     * @return 0 to 65535
     */
    public int method() {
        return method;
    }

    /**
     * The number of the call, unique within its session.
     *
     * @return the number
     */
    public long id() {
        return id;
    }

    /**
     * What the call has left, now: the smaller of its delay budget and the time to its deadline.
     *
     * @return zero once it is not worth working on; very long when nothing limits it
     */
    public Duration remaining() {
        return Duration.ofNanos(remainingNanos());
    }

    /**
     * The time to the deadline.
     *
     * @return zero once it has passed; nothing without a deadline
     */
    public Optional<Duration> timeLeft() {
        return hasDeadline ? Optional.of(Duration.ofNanos(timeLeftNanos())) : Optional.empty();
    }

    /**
     * How long ago the call arrived.
     *
     * @return the time since its bytes were read
     */
    public Duration age() {
        return Duration.ofNanos(Math.max(0, System.nanoTime() - arrivedNanos));
    }

    /**
     * Business importance.
     *
     * @return 0 to 255; lower is more important
     */
    public int priority() {
        return priority;
    }

    /**
     * Whom the work is charged to.
     *
     * @return the tenant
     */
    public int tenant() {
        return tenant;
    }

    /**
     * How often the call was sent before, to other replicas.
     *
     * @return 0 for the first time
     */
    public int attempt() {
        return attempt;
    }

    /**
     * Whether stages may refuse it.
     *
     * @return false for a call with a privilege that the server believes
     */
    public boolean droppable() {
        return droppable;
    }

    /**
     * Refuses the call if a wait would be too long for it.
     *
     * @param stage the place where it would wait
     * @param predicted how long
     * @throws Rejected if that is more than it has left
     */
    public void admit(Stage stage, Duration predicted) throws Rejected {
        long left = remainingNanos();
        if (droppable && (predicted.toNanos() > left || left == 0)) {
            throw new Rejected(stage, predicted, Duration.ofNanos(left));
        }
    }

    /**
     * Takes a wait that really happened out of the delay budget. The locks of this package do it by themselves.
     *
     * @param wait how long the call waited
     */
    public void charge(Duration wait) {
        charge(wait.toNanos());
    }

    void charge(long nanos) {
        chargedNanos.addAndGet(Math.max(0, nanos));
    }

    long chargedNanos() {
        return chargedNanos.get();
    }

    /** What a lock is told: negative if it must not refuse. */
    long limitNanos() {
        return droppable && (hasDeadline || budgetNanos >= 0) ? remainingNanos() : -1;
    }

    long remainingNanos() {
        long budget = budgetNanos < 0 ? Long.MAX_VALUE : Math.max(0, budgetNanos - chargedNanos.get());
        return hasDeadline ? Math.min(budget, timeLeftNanos()) : budget;
    }

    private long timeLeftNanos() {
        return Math.max(0, deadlineNanos - System.nanoTime());
    }
}
