package dev.seawall.examples;

import com.sun.net.httpserver.HttpServer;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Set;
import java.util.concurrent.Executors;

/**
 * A web service that knows nothing of Seawall: the server that comes with Java. Its pauses are known to a
 * {@code seawall proxy} on the same host by way of the agent.
 */
final class Shop {
    private Shop() {}

    public static void main(String[] arguments) throws Exception {
        Arguments given = new Arguments(arguments, Set.of("port", "batch", "live"));
        InetSocketAddress address =
                new InetSocketAddress(InetAddress.getLoopbackAddress(), (int) given.number("port", 8080));
        System.setProperty("sun.net.httpserver.nodelay", "true"); // else each reply waits 40 ms for an acknowledgement
        HttpServer server = HttpServer.create(address, 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        byte[] page = "tea 4.20, coffee 5.10\n".getBytes();
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, page.length);
            try (OutputStream body = exchange.getResponseBody()) {
                body.write(page);
            }
        });
        server.start();
        System.out.println("http://127.0.0.1:" + server.getAddress().getPort());
        double batch = given.number("batch", 0) * (1 << 20);
        if (batch > 0) {
            Churn churn = new Churn((long) (given.number("live", 200) * (1 << 20)));
            Churn.run(batch, () -> false, churn::write);
        }
    }
}
