package dev.seawall;

import dev.seawall.internal.Native;
import java.time.Duration;

/**
 * What is known of the collector's pauses in this process.
 *
 * @param count pauses since it is watched
 * @param total how long all of them took
 * @param longest how long the longest took
 * @param ransac how well they were predicted by random sample consensus
 * @param ols how well by ordinary least squares
 */
public record Pauses(long count, Duration total, Duration longest, Precision ransac, Precision ols) {

    /**
     * How well pauses were predicted.
     *
     * @param predicted how many were
     * @param precise which part of those were off by no more than 4 ms, 0 to 1
     */
    public record Precision(long predicted, double precise) {}

    /**
     * What is known so far.
     *
     * @return nothing but zeros if nobody watches: then the process has said why on standard error
     */
    public static Pauses now() {
        long[] all = Native.pauses();
        if (all.length == 0) {
            Precision none = new Precision(0, 0);
            return new Pauses(0, Duration.ZERO, Duration.ZERO, none, none);
        }
        return new Pauses(all[0], Duration.ofNanos(all[1]), Duration.ofNanos(all[2]),
                new Precision(all[3], all[4] / 1e6), new Precision(all[5], all[6] / 1e6));
    }
}
