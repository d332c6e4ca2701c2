package dev.seawall.examples;

import java.util.Random;
import java.util.function.BooleanSupplier;

/**
 * Pairs of keys and values that are written again and again: what a collector has to do for a simple store.
 *
 * <p>Each write puts a value of 100 to 1000 bytes in the place of another.
 */
final class Churn {
    /** Mean of a value and its header, in bytes. */
    static final int MEAN = 550 + 16;

    private final byte[][] values;
    private final Random random = new Random(1);

    /** Holds so many bytes. */
    Churn(long bytes) {
        values = new byte[(int) Math.max(1, bytes / MEAN)][];
    }

    /** Writes so many bytes or a few more, and says how many. */
    long write(long bytes) {
        long written = 0;
        while (written < bytes) {
            byte[] value = new byte[random.nextInt(100, 1001)];
            values[random.nextInt(values.length)] = value;
            written += value.length + 16;
        }
        return written;
    }

    /** Writes so many bytes each second, as evenly as it can, until it is over. */
    static void run(double rate, BooleanSupplier isOver, Writer writer) throws InterruptedException {
        long begin = System.nanoTime();
        double written = 0;
        while (!isOver.getAsBoolean()) {
            double due = (System.nanoTime() - begin) / 1e9 * rate;
            if (written >= due) {
                Thread.sleep(1);
            } else {
                written += writer.write((long) Math.min(due - written, rate / 10));
            }
        }
    }

    /** Writes bytes, and says how many. */
    @FunctionalInterface
    interface Writer {
        long write(long bytes);
    }
}
