package dev.seawall;

import dev.seawall.internal.Native;
import dev.seawall.internal.Toml;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ThreadFactory;

/**
 * A server whose network side no garbage collector stops.
 *
 * <p>Native threads read requests, refuse at once what could not be served in time, and write replies. The handlers run
 * on Java threads of this server. While the collector stops those, a request that cannot wait until it is predicted to be
 * done is refused at {@link Stage#PAUSE}, and its client goes to another replica.
 *
 * <pre>{@code
 * try (SeawallServer server = SeawallServer.builder()
 *         .listen("127.0.0.1:7117")
 *         .slo(Duration.ofMillis(20))
 *         .repeatable(1, "get", (context, key) -> store.get(new String(key, UTF_8)))
 *         .start()) {
 *     server.join();
 * }
 * }</pre>
 */
public final class SeawallServer implements AutoCloseable {
    private static final Duration GRACE = Duration.ofSeconds(5);

    /** So soon a handler thread without a call ends, and one with a call that heeds interrupts. */
    private static final Duration IDLE = Duration.ofMillis(100);
    private static final Duration HEED = Duration.ofSeconds(1);

    private final long handle;
    private final List<Thread> threads = new ArrayList<>();
    private final InetSocketAddress address;
    private volatile ServerStats last;

    private SeawallServer(Builder builder) {
        Map<Integer, Method> methods = builder.methods;
        int[] numbers = methods.keySet().stream().mapToInt(Integer::intValue).toArray();
        String[] names = methods.values().stream().map(Method::name).toArray(String[]::new);
        boolean[] repeatable = new boolean[numbers.length];
        Map<Integer, Handler> handlers = new TreeMap<>();
        for (int i = 0; i < numbers.length; i++) {
            Method method = methods.get(numbers[i]);
            repeatable[i] = method.repeatable();
            handlers.put(numbers[i], method.handler());
        }
        handle = Native.serverStart(builder.config(), numbers, names, repeatable, new Dispatcher(handlers));
        try {
            address = parse(Native.serverAddress(handle));
            for (int i = 0; i < builder.workers; i++) {
                Thread thread = builder.threadFactory.newThread(() -> Native.serverWork(handle));
                if (builder.threadFactory == DEFAULT_THREADS) {
                    thread.setName("seawall-handler-" + i);
                }
                thread.start();
                threads.add(thread);
            }
        } catch (RuntimeException | Error failed) { // such as no thread, or none more
            Native.serverStop(handle, 0);
            throw failed;
        }
    }

    private static final ThreadFactory DEFAULT_THREADS = Thread::new;

    /**
     * A server that is not set up yet.
     *
     * @return its builder
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Where it listens.
     *
     * @return the address, with the port that the system chose if none was asked for
     */
    public InetSocketAddress address() {
        return address;
    }

    /**
     * What has happened since it started.
     *
     * @return counts; of a server that is closed, those from when it was
     */
    public ServerStats stats() {
        try {
            return count();
        } catch (IllegalStateException closed) {
            return last;
        }
    }

    private ServerStats count() {
        long[] counts = Native.serverCounts(handle);
        String[] pairs = Native.serverRefusals(handle);
        Map<String, Long> refusals = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            refusals.put(pairs[i], Long.valueOf(pairs[i + 1]));
        }
        return new ServerStats(counts[0], counts[1], counts[2], counts[3], counts[4], refusals, counts[5], counts[6],
                counts[7], counts[8], Duration.ofNanos(counts[9]));
    }

    /**
     * Waits until the server is closed.
     *
     * @throws InterruptedException if the thread is interrupted
     */
    public void join() throws InterruptedException {
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Closes it, after what was accepted is answered, but within about five seconds. */
    @Override
    public void close() {
        close(GRACE);
    }

    /**
     * Lets nothing new in, tells clients to leave, and stops. Handlers that are not done then are interrupted; who does
     * not heed that is left alone.
     *
     * @param grace how long it waits for what was accepted to be answered; the rest is cancelled then
     */
    public void close(Duration grace) {
        try {
            last = count();
            Native.serverStop(handle, grace.toNanos());
        } catch (IllegalStateException closed) {
            return;
        }
        boolean interrupted = false;
        for (Thread thread : threads) {
            if (thread == Thread.currentThread()) {
                continue;
            }
            try {
                thread.join(IDLE.toMillis());
                if (thread.isAlive()) {
                    thread.interrupt();
                    thread.join(HEED.toMillis());
                }
            } catch (InterruptedException later) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static InetSocketAddress parse(String address) {
        int colon = address.lastIndexOf(':');
        String host = address.substring(0, colon).replaceAll("[\\[\\]]", "");
        return new InetSocketAddress(host, Integer.parseInt(address.substring(colon + 1)));
    }

    private record Method(String name, boolean repeatable, Handler handler) {}

    /** What can be set about a server. */
    public static final class Builder {
        private final Map<Integer, Method> methods = new TreeMap<>();
        private final Toml toml = new Toml();
        private String config = "";
        private int workers = Runtime.getRuntime().availableProcessors();
        private ThreadFactory threadFactory = DEFAULT_THREADS;

        private Builder() {}

        /**
         * Where to listen.
         *
         * @param address {@code IP:PORT}; port 0 lets the system choose. Default {@code 127.0.0.1:7117}: loopback only,
         *     until told otherwise
         * @return this
         */
        public Builder listen(String address) {
            toml.set("listen", address);
            return this;
        }

        /**
         * The latency that a result must meet to be worth something, client to client.
         *
         * @param slo default 2 ms; delays that are not set follow from it
         * @return this
         */
        public Builder slo(Duration slo) {
            toml.set("slo", slo);
            return this;
        }

        /**
         * How often clients may send a request until it is served, here or at other replicas.
         *
         * @param attempts 1 to 16; default 1. With 2, this server has half of the SLO
         * @return this
         */
        public Builder attempts(int attempts) {
            toml.set("attempts", attempts);
            return this;
        }

        /**
         * Threads that run handlers.
         *
         * @param workers 1 to 1024; default one for each processor
         * @return this
         */
        public Builder workers(int workers) {
            if (workers < 1 || workers > 1024) {
                throw new IllegalArgumentException("workers is " + workers + "; allowed is 1 to 1024");
            }
            this.workers = workers;
            return this;
        }

        /**
         * Who makes those threads.
         *
         * @param factory makes platform threads: a handler thread waits in native code
         * @return this
         */
        public Builder threadFactory(ThreadFactory factory) {
            this.threadFactory = factory;
            return this;
        }

        /**
         * All else that can be set about a server, as TOML.
         *
         * @param lines such as {@code [admission]}, {@code algorithm = "protego"}; what has a setter here is not
         *     repeated
         * @return this
         */
        public Builder config(String lines) {
            config = lines;
            return this;
        }

        /**
         * Serves calls of a method.
         *
         * @param number 0 to 65535, by which clients call it
         * @param name for metrics
         * @param handler serves them
         * @return this
         */
        public Builder method(int number, String name, Handler handler) {
            return add(number, new Method(name, false, handler));
        }

        /**
         * Serves calls of a method that changes nothing, or nothing more the second time: a call that a pause of the
         * collector catches in its handler need not wait for its end, and may be served by another replica.
         *
         * @param number 0 to 65535, by which clients call it
         * @param name for metrics
         * @param handler serves them
         * @return this
         */
        public Builder repeatable(int number, String name, Handler handler) {
            return add(number, new Method(name, true, handler));
        }

        private Builder add(int number, Method method) {
            if (methods.putIfAbsent(number, method) != null) {
                throw new IllegalArgumentException("method " + number + " has a handler: "
                        + methods.get(number).name());
            }
            return this;
        }

        private String config() {
            return new Toml().add(toml.toString()).set("threads.workers", workers).add(config).toString();
        }

        /**
         * Starts the server.
         *
         * @return the server, which listens
         * @throws IllegalArgumentException with what is wrong with the configuration or the address
         */
        public SeawallServer start() {
            return new SeawallServer(this);
        }
    }
}
