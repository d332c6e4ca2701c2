package dev.seawall.examples;

import dev.seawall.Context;
import dev.seawall.Failed;
import dev.seawall.LatencyAwareReadWriteLock;
import dev.seawall.Rejected;
import dev.seawall.SeawallServer;
import dev.seawall.Stage;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A key-value store in Java, which {@code seawall load --workload kv} and {@code seawall compare} take for one of their
 * own: the same methods and encodings.
 *
 * <p>{@code --batch MIB} has it write so much each second of its own accord, to nobody's use: what a replica does that
 * takes in a batch of writes, and what its collector has to do for it. {@code --rebalance S} has it balance its ring,
 * which all requests read, that many seconds after the last time, on average: a lock is held for it.
 */
final class Store {
    private static final int GET = 1;
    private static final int SET = 2;
    private static final int DELETE = 3;

    private static final byte[] MISS = {1};
    private static final byte[] STORED = {2};
    private static final byte[] DELETED = {3};
    private static final byte[] NOT_FOUND = {4};

    private final Map<Key, byte[]> hits = new ConcurrentHashMap<>();
    private final LatencyAwareReadWriteLock ring = new LatencyAwareReadWriteLock(new Stage(Stage.FIRST_OWN), "ring");
    private volatile long balanced;

    private Store() {}

    /** Bytes that are equal when their contents are. */
    private record Key(byte[] bytes) {
        @Override
        public boolean equals(Object other) {
            return other instanceof Key key && Arrays.equals(bytes, key.bytes);
        }

        @Override
        public int hashCode() {
            return Arrays.hashCode(bytes);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Arguments given = new Arguments(arguments, Set.of("listen", "batch", "live", "rebalance", "workers", "config"));
        Store store = new Store();
        SeawallServer server = SeawallServer.builder()
                .listen(given.text("listen", "127.0.0.1:0"))
                .workers((int) given.number("workers", 2))
                .config(given.text("config", ""))
                .repeatable(GET, "get", store::get)
                .method(SET, "set", store::set)
                .method(DELETE, "delete", store::delete)
                .start();
        double batch = given.number("batch", 0) * (1 << 20);
        if (batch > 0) {
            Churn churn = new Churn((long) (given.number("live", 200) * (1 << 20)));
            beside("batch", () -> Churn.run(batch, () -> false, churn::write));
        }
        double pause = given.number("rebalance", 0);
        if (pause > 0) {
            beside("rebalance", () -> store.rebalance(pause));
        }
        System.out.println("{\"address\":\"127.0.0.1:" + server.address().getPort() + "\"}");
        while (System.in.read() >= 0) {
            // until whoever started it closes it
        }
        server.close();
    }

    /** What goes on beside requests. */
    @FunctionalInterface
    private interface Job {
        void run() throws InterruptedException;
    }

    private static void beside(String name, Job job) {
        Thread thread = new Thread(() -> {
            try {
                job.run();
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Balances the ring again and again: 350 to 1500 nodes, each of which takes some 0.1 ms. */
    private void rebalance(double pause) throws InterruptedException {
        Random random = new Random(4);
        while (true) {
            Thread.sleep((long) (-Math.log(1 - random.nextDouble()) * pause * 1e3));
            int nodes = random.nextInt(350, 1501);
            ring.writeLock().lock();
            try {
                ring.writeLock().announce("rebalance", nodes);
                long sum = balanced;
                for (long step = 0; step < nodes * 100_000L; step++) {
                    sum = sum * 6364136223846793005L + step;
                }
                balanced = sum;
            } finally {
                ring.writeLock().unlock();
            }
        }
    }

    /** Reads who has which keys; all of them are here. */
    private void route(Context context) throws Rejected {
        ring.readLock().lock(context);
        ring.readLock().unlock();
    }

    private byte[] get(Context context, byte[] key) throws Rejected {
        route(context);
        return hits.getOrDefault(new Key(key), MISS);
    }

    private byte[] set(Context context, byte[] payload) throws Failed, Rejected {
        route(context);
        try {
            ByteBuffer buffer = ByteBuffer.wrap(payload).order(ByteOrder.LITTLE_ENDIAN);
            int flags = buffer.getInt();
            buffer.getLong(); // when it expires, which this store does not know
            byte[] key = new byte[buffer.getShort() & 0xffff];
            buffer.get(key);
            byte[] hit = new byte[1 + 4 + buffer.remaining()];
            ByteBuffer.wrap(hit).order(ByteOrder.LITTLE_ENDIAN).put((byte) 0).putInt(flags).put(buffer);
            hits.put(new Key(key), hit);
            return STORED;
        } catch (BufferUnderflowException cut) {
            throw new Failed(Failed.INVALID, "payload too short");
        }
    }

    private byte[] delete(Context context, byte[] key) throws Rejected {
        route(context);
        return hits.remove(new Key(key)) == null ? NOT_FOUND : DELETED;
    }
}
