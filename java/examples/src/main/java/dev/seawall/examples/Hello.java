package dev.seawall.examples;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.seawall.Request;
import dev.seawall.SeawallClient;
import dev.seawall.SeawallServer;
import java.time.Duration;

/** The example of the documentation: a server and its client. */
final class Hello {
    private Hello() {}

    public static void main(String[] arguments) throws Exception {
        try (SeawallServer server = SeawallServer.builder()
                .listen("127.0.0.1:0")
                .slo(Duration.ofMillis(200))
                .repeatable(1, "hello", (context, name) -> ("Hello, " + new String(name, UTF_8) + "!").getBytes(UTF_8))
                .start();
                SeawallClient client = SeawallClient.builder("127.0.0.1:" + server.address().getPort()).build()) {
            byte[] reply = client.call(Request.of(1, "world".getBytes(UTF_8)).deadline(Duration.ofSeconds(2)));
            System.out.println(new String(reply, UTF_8));
            System.out.println(server.stats());
        }
    }
}
