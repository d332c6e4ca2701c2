package dev.seawall.examples;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/**
 * Gives a collector much to do: {@code churn}, {@code trees} or {@code rows}.
 *
 * <p>To be run with {@code -agentpath:libseawall_jvm.so=record=FILE}, which writes down each pause and what was predicted.
 * It prints what it did, so that runs with and without an agent can be compared.
 */
final class Collect {
    private static final long MIB = 1 << 20;
    private static final List<GarbageCollectorMXBean> COLLECTORS = ManagementFactory.getGarbageCollectorMXBeans();

    private Collect() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            System.err.println("usage: Collect churn|trees|rows [--live MIB] [--rate MIB] "
                    + "[--seconds S | --collections N | --work N]");
            System.exit(2);
        }
        String[] options = Arrays.copyOfRange(arguments, 1, arguments.length);
        Arguments given = new Arguments(options, Set.of("live", "rate", "seconds", "collections", "work"));
        double live = given.number("live", 100) * MIB;
        double rate = given.number("rate", 200) * MIB;
        long begin = System.nanoTime();
        switch (arguments[0]) {
            case "churn" -> {
                Churn churn = new Churn((long) live);
                spend(given, rate, churn::write);
            }
            case "trees" -> {
                Trees trees = new Trees((long) live);
                spend(given, rate, trees::write);
            }
            case "rows" -> {
                try (Rows rows = new Rows((long) live)) {
                    for (BooleanSupplier isOver = end(given); !isOver.getAsBoolean();) {
                        rows.transfer(100);
                    }
                }
            }
            default -> throw new IllegalArgumentException("there is no " + arguments[0] + "; there are churn, trees, rows");
        }
        double took = (System.nanoTime() - begin) / 1e9;
        long millis = COLLECTORS.stream().mapToLong(GarbageCollectorMXBean::getCollectionTime).sum();
        System.out.printf("{\"seconds\":%.3f,\"collections\":%d,\"collecting_ms\":%d}%n", took, collections(), millis);
    }

    /** As fast as it goes if there is an amount of work, whose time tells what an agent costs. */
    private static void spend(Arguments given, double rate, Churn.Writer writer) throws InterruptedException {
        BooleanSupplier isOver = end(given);
        if (given.number("work", 0) > 0) {
            while (!isOver.getAsBoolean()) {
                writer.write(MIB);
            }
        } else {
            Churn.run(rate, isOver, writer);
        }
    }

    /** After so many steps, collections, or seconds. */
    private static BooleanSupplier end(Arguments given) {
        double work = given.number("work", 0);
        double collections = given.number("collections", 0);
        if (work > 0) {
            AtomicLong steps = new AtomicLong();
            return () -> steps.getAndIncrement() >= work;
        }
        if (collections > 0) {
            return () -> collections() >= collections;
        }
        double seconds = given.number("seconds", 60);
        long begin = System.nanoTime();
        return () -> (System.nanoTime() - begin) / 1e9 >= seconds;
    }

    private static long collections() {
        return COLLECTORS.stream().mapToLong(GarbageCollectorMXBean::getCollectionCount).sum();
    }
}
