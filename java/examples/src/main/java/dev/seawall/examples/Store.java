package dev.seawall.examples;

import dev.seawall.Context;
import dev.seawall.Failed;
import dev.seawall.SeawallServer;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A key-value store in Java, which {@code seawall load --workload kv} and {@code seawall compare} take for one of their
 * own: the same methods and encodings.
 *
 * <p>{@code --batch MIB} has it write so much each second of its own accord, to nobody's use: what a replica does that
 * takes in a batch of writes, and what its collector has to do for it.
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
        Arguments given = new Arguments(arguments, Set.of("listen", "batch", "live", "workers", "config"));
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
            Thread writer = new Thread(() -> {
                try {
                    Churn.run(batch, Double.POSITIVE_INFINITY, churn::write);
                } catch (InterruptedException end) {
                    Thread.currentThread().interrupt();
                }
            }, "batch");
            writer.setDaemon(true);
            writer.start();
        }
        System.out.println("{\"address\":\"127.0.0.1:" + server.address().getPort() + "\"}");
        while (System.in.read() >= 0) {
            // until whoever started it closes it
        }
        server.close();
    }

    private byte[] get(Context context, byte[] key) {
        return hits.getOrDefault(new Key(key), MISS);
    }

    private byte[] set(Context context, byte[] payload) throws Failed {
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

    private byte[] delete(Context context, byte[] key) {
        return hits.remove(new Key(key)) == null ? NOT_FOUND : DELETED;
    }
}
