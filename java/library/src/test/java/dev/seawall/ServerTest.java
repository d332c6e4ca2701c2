package dev.seawall;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ServerTest {
    private static final Stage SHELF = new Stage(17);

    static SeawallServer.Builder server() {
        return SeawallServer.builder().listen("127.0.0.1:0").slo(Duration.ofSeconds(5)).workers(2);
    }

    static SeawallClient client(SeawallServer... servers) {
        String[] replicas = new String[servers.length];
        for (int i = 0; i < servers.length; i++) {
            replicas[i] = "127.0.0.1:" + servers[i].address().getPort();
        }
        return SeawallClient.builder(replicas).build();
    }

    @Test
    void handlersAreJava() throws Exception {
        try (SeawallServer server = server()
                .method(1, "shout", (context, payload) -> new String(payload, UTF_8).toUpperCase().getBytes(UTF_8))
                .start(); SeawallClient client = client(server)) {
            assertEquals("HELLO", new String(client.call(Request.of(1, "hello".getBytes(UTF_8))), UTF_8));
            assertArrayEquals(new byte[0], client.call(Request.of(1, new byte[0])));
            List<CompletableFuture<Reply>> replies = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                replies.add(client.callAsync(Request.of(1, ("call " + i).getBytes(UTF_8))));
            }
            for (int i = 0; i < 500; i++) {
                assertEquals("CALL " + i, new String(replies.get(i).get().payload(), UTF_8));
            }
            ServerStats stats = server.stats();
            assertEquals(502, stats.completions());
            assertEquals(1, stats.sessions());
            assertEquals(0, stats.outstanding());
        }
    }

    @Test
    void aContextSaysWhoAsksAndHowLongItIsWorthWorking() throws Exception {
        try (SeawallServer server = server().method(7, "look", (context, payload) -> {
            assertEquals(7, context.method());
            assertEquals(128, context.priority());
            assertTrue(context.droppable());
            assertEquals(context, Context.current().orElseThrow());
            Duration left = context.timeLeft().orElseThrow();
            assertTrue(left.compareTo(Duration.ofSeconds(2)) < 0 && left.compareTo(Duration.ofSeconds(1)) > 0, "" + left);
            Duration before = context.remaining();
            context.charge(Duration.ofSeconds(3600));
            assertTrue(before.toNanos() > 0 && context.remaining().isZero(), "all of the budget is used up");
            context.admit(SHELF, Duration.ofMillis(1));
            return payload;
        }).start(); SeawallClient client = client(server)) {
            Request request = Request.of(7, new byte[1]).deadline(Duration.ofSeconds(2));
            Rejected rejected = assertThrows(Rejected.class, () -> client.call(request));
            assertEquals(SHELF, rejected.stage());
            assertEquals(Duration.ofMillis(1), rejected.predicted());
            assertEquals(1, server.stats().refusals().get("stage 17"));
        }
    }

    @Test
    void whatOneReplicaRefusesAnotherServes() throws Exception {
        Handler full = (context, payload) -> {
            throw new Rejected(SHELF, Duration.ofSeconds(1), Duration.ZERO);
        };
        try (SeawallServer one = server().method(1, "get", full).start();
                SeawallServer two = server().method(1, "get", (context, payload) -> payload).start();
                SeawallClient client = client(one, two)) {
            // Both are connected to by the time that one call was served by the second.
            while (two.stats().completions() == 0) {
                try {
                    client.call(Request.of(1, new byte[1]));
                } catch (Rejected early) {
                    Thread.sleep(5);
                }
            }
            for (int i = 0; i < 8; i++) {
                Reply reply = client.callAsync(Request.of(1, new byte[] {42})).get();
                assertEquals(42, reply.payload()[0]);
            }
            assertTrue(one.stats().refused() > 0);
        }
    }

    @Test
    void whateverAHandlerThrowsIsItsOwnCallsEnd() throws Exception {
        try (SeawallServer server = server().method(1, "fail", (context, payload) -> {
            switch (payload[0]) {
                case 0 -> throw new Failed(Failed.NOT_FOUND, "no such key");
                case 1 -> throw new IllegalArgumentException("what is this?");
                case 2 -> throw new OutOfMemoryError("asked to");
                case 3 -> throw new StackOverflowError();
                case 4 -> {
                    return null;
                }
                case 5 -> {
                    return new byte[2 << 20]; // more than a frame may have
                }
                default -> {
                    return payload;
                }
            }
        }).start(); SeawallClient client = client(server)) {
            int[] codes = {Failed.NOT_FOUND, Failed.INTERNAL, Failed.RESOURCE_EXHAUSTED, Failed.INTERNAL,
                Failed.INTERNAL};
            String[] messages = {"no such key", "what is this?", "out of memory", "StackOverflowError", "null"};
            for (byte i = 0; i < codes.length; i++) {
                Request request = Request.of(1, new byte[] {i});
                Failed failed = assertThrows(Failed.class, () -> client.call(request));
                assertEquals(codes[i], failed.code());
                assertTrue(failed.getMessage().contains(messages[i]), failed.getMessage());
                assertEquals(1, failed.attempts());
            }
            assertEquals(9, client.call(Request.of(1, new byte[] {9}))[0], "the server goes on");
            Failed unknown = assertThrows(Failed.class, () -> client.call(Request.of(2, new byte[0])));
            assertEquals(Failed.UNIMPLEMENTED, unknown.code());
        }
    }

    @Test
    void aCallCanBeGivenUp() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch end = new CountDownLatch(1);
        try (SeawallServer server = server().method(1, "wait", (context, payload) -> {
            begun.countDown();
            end.await();
            return payload;
        }).start(); SeawallClient client = client(server)) {
            CompletableFuture<Reply> call = client.callAsync(Request.of(1, new byte[0]));
            begun.await();
            assertTrue(call.cancel(true));
            Request hurried = Request.of(1, new byte[0]).deadline(Duration.ofMillis(50));
            assertInstanceOf(CallException.class, assertThrows(CallException.class, () -> client.call(hurried)));
            end.countDown();
            assertArrayEquals(new byte[0], client.call(Request.of(1, new byte[0])));
        }
    }

    @Test
    void closingEndsWhatIsOut() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        SeawallServer server = server().method(1, "wait", (context, payload) -> {
            begun.countDown();
            Thread.sleep(200);
            return payload;
        }).start();
        SeawallClient client = client(server);
        CompletableFuture<Reply> call = client.callAsync(Request.of(1, new byte[] {1}));
        begun.await();
        server.close();
        assertEquals(1, call.get().payload()[0], "what was accepted is answered first");
        server.close(); // again
        assertEquals(1, server.stats().requests(), "as it was when it was closed");
        CompletableFuture<Reply> late = client.callAsync(Request.of(1, new byte[0]));
        assertInstanceOf(CallException.class, assertThrows(ExecutionException.class, late::get).getCause());
        client.close();
        client.close(); // again
        assertThrows(IllegalStateException.class, () -> client.callAsync(Request.of(1, new byte[0])));
    }

    @Test
    void closingInterruptsWhoTakesTooLong() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch interrupted = new CountDownLatch(1);
        SeawallServer server = server().method(1, "wait", (context, payload) -> {
            begun.countDown();
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException heeded) {
                interrupted.countDown();
            }
            return payload;
        }).start();
        try (SeawallClient client = client(server)) {
            CompletableFuture<Reply> call = client.callAsync(Request.of(1, new byte[0]));
            begun.await();
            server.close(Duration.ofMillis(50));
            interrupted.await();
            assertInstanceOf(CallException.class, assertThrows(ExecutionException.class, call::get).getCause());
        }
    }

    @Test
    void badConfigurationIsNamed() {
        String[][] cases = {
            {"slo = \"soon\"", "slo"},
            {"colour = \"red\"", "colour"},
            {"[admission]\nalgorithm = \"best\"", "best"},
            {"[limits]\nsessions = 0", "limits.sessions"},
        };
        for (String[] each : cases) {
            SeawallServer.Builder builder = SeawallServer.builder().listen("127.0.0.1:0").config(each[0]);
            String message = assertThrows(IllegalArgumentException.class, builder::start).getMessage();
            assertTrue(message.contains(each[1]), message);
        }
        assertThrows(IllegalArgumentException.class, () -> server().workers(0));
        Handler echo = (context, payload) -> payload;
        assertThrows(IllegalArgumentException.class, () -> server().method(1, "a", echo).method(1, "b", echo));
        String range = assertThrows(IllegalArgumentException.class, () -> server().method(70_000, "a", echo).start())
                .getMessage();
        assertTrue(range.contains("0 to 65535"), range);
        try (SeawallServer first = server().start()) {
            SeawallServer.Builder second = SeawallServer.builder().listen("127.0.0.1:" + first.address().getPort());
            String taken = assertThrows(IllegalArgumentException.class, second::start).getMessage();
            assertTrue(taken.contains("cannot listen at 127.0.0.1"), taken);
        }
    }

    @Test
    void badClientsAreNamed() {
        String none = assertThrows(IllegalArgumentException.class, () -> SeawallClient.builder().build()).getMessage();
        assertTrue(none.contains("HOST:PORT"), none);
        String wrong = assertThrows(IllegalArgumentException.class, () -> SeawallClient.builder("nowhere").build())
                .getMessage();
        assertTrue(wrong.contains("nowhere") && wrong.contains("HOST:PORT"), wrong);
        String attempts = assertThrows(IllegalArgumentException.class,
                () -> SeawallClient.builder("127.0.0.1:1").attempts(99).build()).getMessage();
        assertTrue(attempts.contains("attempts"), attempts);
        assertThrows(IllegalArgumentException.class, () -> new Stage(256));
        assertThrows(IllegalArgumentException.class, () -> new Failed(-1, ""));
    }
}
