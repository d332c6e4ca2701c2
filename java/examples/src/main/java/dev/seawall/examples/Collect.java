package dev.seawall.examples;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.sql.SQLException;
import java.util.Set;

/**
 * Gives a collector much to do: {@code churn}, {@code trees} or {@code rows}.
 *
 * <p>To be run with {@code -agentpath:libseawall_jvm.so=record=FILE}, which writes down each pause and what was predicted.
 * It prints what it did, so that runs with and without an agent can be compared.
 */
final class Collect {
    private static final long MIB = 1 << 20;

    private Collect() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            System.err.println("usage: Collect churn|trees|rows [--live MIB] [--rate MIB] [--seconds S] [--work N]");
            System.exit(2);
        }
        String[] options = java.util.Arrays.copyOfRange(arguments, 1, arguments.length);
        Arguments given = new Arguments(options, Set.of("live", "rate", "seconds", "work"));
        double live = given.number("live", 100) * MIB;
        double rate = given.number("rate", 200) * MIB;
        double seconds = given.number("seconds", 60);
        // Instead of a time, a fixed amount of work, whose time tells what an agent costs.
        double work = given.number("work", 0);
        long begin = System.nanoTime();
        switch (arguments[0]) {
            case "churn" -> {
                Churn churn = new Churn((long) live);
                spend(work, rate, seconds, churn::write);
            }
            case "trees" -> {
                Trees trees = new Trees((long) live);
                spend(work, rate, seconds, trees::write);
            }
            case "rows" -> rows(live, work, seconds);
            default -> throw new IllegalArgumentException("there is no " + arguments[0] + "; there are churn, trees, rows");
        }
        double took = (System.nanoTime() - begin) / 1e9;
        long count = 0;
        long millis = 0;
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            count += Math.max(0, bean.getCollectionCount());
            millis += Math.max(0, bean.getCollectionTime());
        }
        System.out.printf("{\"seconds\":%.3f,\"collections\":%d,\"collecting_ms\":%d}%n", took, count, millis);
    }

    private static void spend(double work, double rate, double seconds, Churn.Writer writer)
            throws InterruptedException {
        if (work > 0) {
            for (int i = 0; i < work; i++) {
                writer.write(MIB);
            }
        } else {
            Churn.run(rate, seconds, writer);
        }
    }

    private static void rows(double live, double work, double seconds) throws SQLException {
        try (Rows rows = new Rows((long) live)) {
            long begin = System.nanoTime();
            for (int i = 0; work > 0 ? i < work : (System.nanoTime() - begin) / 1e9 < seconds; i++) {
                rows.transfer(100);
            }
        }
    }
}
