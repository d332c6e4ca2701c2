package dev.seawall;

import java.time.Duration;

/**
 * A stage refused the request before it had an effect, because it could not have been served in time.
 *
 * <p>Another replica may take it at once. It carries no stack trace: it says where it comes from itself, and is thrown
 * often.
 */
public final class Rejected extends CallException {
    private static final long serialVersionUID = 1;

    /** The place that refused. */
    private final int stage;

    /** The wait that it predicted, in nanoseconds. */
    private final long predictedNanos;

    /** What the request had left, in nanoseconds. */
    private final long remainingNanos;

    /** Until it is worth trying again, in nanoseconds. */
    private final long retryAfterNanos;

    /**
     * A refusal.
     *
     * @param stage the place that refused
     * @param predicted the wait that it predicted
     * @param remaining what the request had left
     */
    public Rejected(Stage stage, Duration predicted, Duration remaining) {
        this(stage, predicted.toNanos(), remaining.toNanos(), 0, stage + " is expected to take " + predicted
                + ", and the request has " + remaining);
    }

    Rejected(Stage stage, long predictedNanos, long remainingNanos, long retryAfterNanos, String message) {
        super(message, false);
        this.stage = stage.number();
        this.predictedNanos = predictedNanos;
        this.remainingNanos = remainingNanos;
        this.retryAfterNanos = retryAfterNanos;
    }

    /**
     * The place that refused.
     *
     * @return the stage
     */
    public Stage stage() {
        return new Stage(stage);
    }

    /**
     * The wait that the stage predicted.
     *
     * @return at {@link Stage#PAUSE}, how long the world still stood still
     */
    public Duration predicted() {
        return Duration.ofNanos(predictedNanos);
    }

    /**
     * What the request had left there.
     *
     * @return the smaller of its delay budget and its remaining deadline; very long where another server refused, which
     *     does not tell
     */
    public Duration remaining() {
        return Duration.ofNanos(remainingNanos < 0 ? Long.MAX_VALUE : remainingNanos);
    }

    /**
     * How long the stage expects to stay so.
     *
     * @return zero when it cannot say
     */
    public Duration retryAfter() {
        return Duration.ofNanos(retryAfterNanos);
    }

    long predictedNanos() {
        return predictedNanos;
    }

    long remainingNanos() {
        return remainingNanos;
    }

    long retryAfterNanos() {
        return retryAfterNanos;
    }
}
