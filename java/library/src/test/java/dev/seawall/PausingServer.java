package dev.seawall;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** A server with much to collect: {@code collect} stops its world. A process of its own, so that its client goes on. */
final class PausingServer {
    static final int ECHO = 1;
    static final int COLLECT = 2;
    static final int PAUSES = 3;

    private static final Map<Integer, Object[]> LIVE = new LinkedHashMap<>();

    private PausingServer() {}

    public static void main(String[] arguments) throws Exception {
        int objects = Integer.parseInt(arguments[0]);
        for (int i = 0; i < objects; i++) {
            LIVE.put(i, new Object[] {new byte[32], i});
        }
        SeawallServer server = SeawallServer.builder().listen("127.0.0.1:0").slo(Duration.ofSeconds(30)).workers(2)
                .repeatable(ECHO, "echo", (context, payload) -> payload)
                .method(COLLECT, "collect", (context, payload) -> {
                    System.gc();
                    return payload;
                })
                .method(PAUSES, "pauses", (context, payload) -> Pauses.now().toString().getBytes())
                .start();
        System.out.println(server.address().getPort());
        System.in.read(); // until whoever started it is gone
        server.close();
    }
}
