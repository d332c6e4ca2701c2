package dev.seawall;

import java.time.Duration;
import java.util.Objects;

/**
 * What is asked of a service. Immutable: each method that sets something gives a copy.
 */
public final class Request {
    private final int method;
    private final byte[] payload;
    private final long deadlineNanos;
    private final long budgetNanos;
    private final int priority;
    private final int tenant;
    private final boolean droppable;
    private final boolean idempotent;

    private Request(int method, byte[] payload, long deadlineNanos, long budgetNanos, int priority, int tenant,
            boolean droppable, boolean idempotent) {
        this.method = method;
        this.payload = payload;
        this.deadlineNanos = deadlineNanos;
        this.budgetNanos = budgetNanos;
        this.priority = priority;
        this.tenant = tenant;
        this.droppable = droppable;
        this.idempotent = idempotent;
    }

    /**
     * A call of a method, of default importance, without a deadline.
     *
     * @param method 0 to 65535
     * @param payload the argument, which is not copied
     * @return the request
     */
    public static Request of(int method, byte[] payload) {
        return new Request(method, Objects.requireNonNull(payload), -1, -1, 128, 0, true, false);
    }

    /**
     * After this long the reply is worthless: the server does not start on it in vain.
     *
     * @param deadline from when it is sent
     * @return a copy
     */
    public Request deadline(Duration deadline) {
        return new Request(method, payload, deadline.toNanos(), budgetNanos, priority, tenant, droppable, idempotent);
    }

    /**
     * How long it may wait at the server.
     *
     * @param budget the delay budget
     * @return a copy
     */
    public Request budget(Duration budget) {
        return new Request(method, payload, deadlineNanos, budget.toNanos(), priority, tenant, droppable, idempotent);
    }

    /**
     * Business importance, if the server believes it.
     *
     * @param priority 0 to 255; lower is more important; 128 by default
     * @return a copy
     */
    public Request priority(int priority) {
        return new Request(method, payload, deadlineNanos, budgetNanos, priority, tenant, droppable, idempotent);
    }

    /**
     * Whom the work is charged to, if the server believes it.
     *
     * @param tenant a number
     * @return a copy
     */
    public Request tenant(int tenant) {
        return new Request(method, payload, deadlineNanos, budgetNanos, priority, tenant, droppable, idempotent);
    }

    /**
     * It may run twice without harm: it goes to another replica even when nobody knows whether the first has run it.
     * What was refused has not run, and needs no such leave.
     *
     * @return a copy
     */
    public Request idempotent() {
        return new Request(method, payload, deadlineNanos, budgetNanos, priority, tenant, droppable, true);
    }

    /**
     * No stage may refuse it, if the server believes that it has this privilege.
     *
     * @return a copy
     */
    public Request undroppable() {
        return new Request(method, payload, deadlineNanos, budgetNanos, priority, tenant, false, idempotent);
    }

    int method() {
        return method;
    }

    byte[] payload() {
        return payload;
    }

    long deadlineNanos() {
        return deadlineNanos;
    }

    long budgetNanos() {
        return budgetNanos;
    }

    int priority() {
        return priority;
    }

    int tenant() {
        return tenant;
    }

    boolean droppable() {
        return droppable;
    }

    boolean isIdempotent() {
        return idempotent;
    }
}
