package dev.seawall.examples;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

/**
 * Graphs of objects of very different shapes and lifetimes: what a collector has to do for a complex program.
 *
 * <p>Trees, maps and lists come and go; trees share what their leaves point to; and now and then, all is dropped.
 */
final class Trees {
    private final Random random = new Random(2);
    private final Map<Integer, Object> roots = new HashMap<>();
    private final ArrayDeque<Object> recent = new ArrayDeque<>();
    private final Object[] labels = new Object[256];
    private final int count;

    /** Holds about so many bytes. */
    Trees(long bytes) {
        count = (int) Math.max(1, bytes / 20_000);
    }

    private record Node(Object left, Object right, Object label) {}

    /** Makes so many bytes or some more, and says about how many. */
    long write(long bytes) {
        long made = 0;
        while (made < bytes) {
            int kind = random.nextInt(4);
            int size = 1 << random.nextInt(4, 12);
            Object object = switch (kind) {
                case 0 -> tree(size);
                case 1 -> map(size);
                case 2 -> chain(size);
                default -> new long[size];
            };
            made += size * (kind == 3 ? 8L : 48L);
            recent.addLast(object);
            labels[random.nextInt(labels.length)] = new long[random.nextInt(64)];
            if (recent.size() > 64) {
                // What has lasted so long often lasts for longer.
                Object old = recent.removeFirst();
                if (random.nextBoolean()) {
                    roots.put(random.nextInt(count), old);
                }
            }
            if (random.nextInt(20_000) == 0) {
                roots.clear(); // as when a cache is thrown away
            }
        }
        return made;
    }

    private Object tree(int size) {
        if (size <= 1) {
            return labels[random.nextInt(labels.length)]; // shared with others
        }
        return new Node(tree(size / 2), tree(size / 2), size);
    }

    private Object map(int size) {
        Map<String, Object> map = new TreeMap<>();
        for (int i = 0; i < size; i++) {
            map.put("key " + random.nextInt(), i);
        }
        return map;
    }

    private Object chain(int size) {
        Object chain = null;
        for (int i = 0; i < size; i++) {
            chain = new Node(chain, null, new byte[random.nextInt(64)]);
        }
        return chain;
    }
}
