package dev.seawall;

import dev.seawall.internal.Native;
import dev.seawall.internal.Toml;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Calls a service of one replica or more. May be used by many threads at once; its network side is native.
 *
 * <pre>{@code
 * try (SeawallClient client = SeawallClient.builder("10.0.0.1:7117", "10.0.0.2:7117").build()) {
 *     byte[] value = client.call(Request.of(1, key).deadline(Duration.ofMillis(20)));
 * }
 * }</pre>
 */
public final class SeawallClient implements AutoCloseable {
    private static final AtomicLong CLIENTS = new AtomicLong();

    private final long handle;
    private final Executor executor;
    private final AtomicLong ids = new AtomicLong();
    private final Map<Long, Call> calls = new ConcurrentHashMap<>();
    private final AtomicBoolean closed = new AtomicBoolean();

    private SeawallClient(Builder builder) {
        handle = Native.clientOpen(builder.toml.toString());
        executor = builder.executor;
        Thread thread = new Thread(this::complete, "seawall-client-" + CLIENTS.incrementAndGet());
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * A client that is not set up yet.
     *
     * @param replicas {@code HOST:PORT} of each
     * @return its builder
     */
    public static Builder builder(String... replicas) {
        return new Builder(List.of(replicas));
    }

    /**
     * Calls the service, and waits for the result.
     *
     * @param request what is asked
     * @return the result
     * @throws CallException why there is none: what the last replica said that was tried
     * @throws InterruptedException if the thread is interrupted; the call is given up then
     */
    public byte[] call(Request request) throws CallException, InterruptedException {
        CompletableFuture<Reply> reply = callAsync(request);
        try {
            return reply.get().payload();
        } catch (InterruptedException interrupted) {
            reply.cancel(true);
            throw interrupted;
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof CallException why) {
                throw why;
            }
            throw new IllegalStateException(failed.getCause());
        }
    }

    /**
     * Calls the service.
     *
     * @param request what is asked
     * @return completed with the result, or exceptionally with a {@link CallException}, on the client's executor.
     *     Cancelling it gives the call up.
     * @throws IllegalStateException if the client is closed
     */
    public CompletableFuture<Reply> callAsync(Request request) {
        long id = ids.incrementAndGet();
        Call call = new Call(id);
        calls.put(id, call);
        try {
            Native.clientCall(handle, id, request.method(), request.payload(), request.deadlineNanos(),
                    request.budgetNanos(), request.priority(), request.tenant(), request.droppable(),
                    request.isIdempotent());
        } catch (RuntimeException | Error wrong) {
            calls.remove(id);
            throw wrong;
        }
        if (closed.get() && calls.remove(id) != null) {
            call.completeExceptionally(new Cancelled("the client was closed"));
        }
        return call;
    }

    /** Closes it. Calls that are out are given up. */
    @Override
    public void close() {
        if (closed.compareAndSet(false, true)) {
            Native.clientClose(handle);
        }
    }

    private void complete() {
        long[] outcome = new long[7];
        while (!closed.get()) {
            Call call = null;
            outcome[0] = 0;
            try {
                byte[] payload = Native.clientNext(handle, outcome);
                call = calls.remove(outcome[0]);
                if (call != null && payload != null) {
                    end(call, payload, outcome);
                }
            } catch (Throwable problem) { // such as too little memory for the result
                call = call == null ? calls.remove(outcome[0]) : call;
                if (call != null) {
                    call.completeExceptionally(new ConnectionLost("the result is lost: " + problem));
                }
            }
        }
        for (Long id : calls.keySet()) {
            Call call = calls.remove(id);
            if (call != null) {
                Cancelled why = new Cancelled("the client was closed");
                try {
                    executor.execute(() -> call.completeExceptionally(why));
                } catch (RuntimeException over) {
                    call.completeExceptionally(why);
                }
            }
        }
    }

    private void end(Call call, byte[] payload, long[] outcome) {
        int attempts = (int) outcome[6];
        if (outcome[1] == 0) {
            executor.execute(() -> call.complete(new Reply(payload, attempts)));
            return;
        }
        CallException why = failure(outcome, new String(payload, StandardCharsets.UTF_8)).after(attempts);
        executor.execute(() -> call.completeExceptionally(why));
    }

    private static CallException failure(long[] outcome, String message) {
        return switch ((int) outcome[1]) {
            case 1 -> new Rejected(new Stage((int) outcome[2]), outcome[3], outcome[4], outcome[5], message);
            case 2 -> new Failed((int) outcome[2], message);
            case 4 -> new Cancelled(message);
            case 5 -> new DeadlineExceeded(message);
            case 6 -> new ConnectionLost(message);
            default -> new NotSent(message);
        };
    }

    /** A call whose cancellation the service hears of. */
    private final class Call extends CompletableFuture<Reply> {
        private final long id;

        Call(long id) {
            this.id = id;
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            boolean cancelled = super.cancel(mayInterrupt);
            if (calls.remove(id) != null) {
                try {
                    Native.clientCancel(handle, id);
                } catch (IllegalStateException closed) {
                    // and with the client, the call
                }
            }
            return cancelled;
        }

        @Override
        public <U> CompletableFuture<U> newIncompleteFuture() {
            return new CompletableFuture<>();
        }
    }

    /** What can be set about a client. */
    public static final class Builder {
        private final Toml toml = new Toml();
        private Executor executor = Runnable::run;

        private Builder(List<String> replicas) {
            toml.set("replicas", replicas);
        }

        /**
         * What it calls itself in the server's logs.
         *
         * @param name the name
         * @return this
         */
        public Builder name(String name) {
            toml.set("name", name);
            return this;
        }

        /**
         * Proof of identity, if the server wants one.
         *
         * @param token the secret
         * @return this
         */
        public Builder token(String token) {
            toml.set("token", token);
            return this;
        }

        /**
         * The network round trip to the service.
         *
         * @param rtt default 100 µs
         * @return this
         */
        public Builder rtt(Duration rtt) {
            toml.set("rtt", rtt);
            return this;
        }

        /**
         * How often a request may be sent, to as many replicas.
         *
         * @param attempts 1 to 16; default 2
         * @return this
         */
        public Builder attempts(int attempts) {
            toml.set("retry.attempts", attempts);
            return this;
        }

        /**
         * How many retries there may be for each call, on average, so that retries do not add to an overload.
         *
         * @param budget 0 to 16; default 0.1
         * @return this
         */
        public Builder retryBudget(double budget) {
            toml.set("retry.budget", budget);
            return this;
        }

        /**
         * All else that can be set about a client, as TOML.
         *
         * @param lines such as {@code [tls]}, {@code authorities = "ca.pem"}
         * @return this
         */
        public Builder config(String lines) {
            toml.add(lines);
            return this;
        }

        /**
         * Where results are delivered.
         *
         * @param executor default: the client's own thread, on which nothing may wait
         * @return this
         */
        public Builder executor(Executor executor) {
            this.executor = executor;
            return this;
        }

        /**
         * Makes the client, which connects when it is first used.
         *
         * @return the client
         * @throws IllegalArgumentException with what is wrong with the configuration
         */
        public SeawallClient build() {
            return new SeawallClient(this);
        }
    }
}
