package dev.seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(300)
class PauseTest {
    private static final int OBJECTS = 2_000_000;

    private static Process start(String collector) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-Xmx1g", "-Xms1g",
                collector, "-cp", System.getProperty("java.class.path")));
        String library = System.getProperty("seawall.library.path");
        if (library != null) {
            command.add("-Dseawall.library.path=" + library);
        }
        command.add(PausingServer.class.getName());
        command.add(String.valueOf(OBJECTS));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    /** What comes in a pause, and has less time than that, is refused while it lasts. */
    @ParameterizedTest
    @ValueSource(strings = {"-XX:+UseParallelGC", "-XX:+UseG1GC", "-XX:+UseSerialGC"})
    void aPauseRefuses(String collector) throws Exception {
        Process process = start(collector);
        try (BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream()));
                SeawallClient client = SeawallClient.builder("127.0.0.1:" + out.readLine()).attempts(1).build()) {
            client.call(Request.of(PausingServer.ECHO, new byte[0]));
            // The second is predicted from the first.
            client.call(Request.of(PausingServer.COLLECT, new byte[0]));
            client.call(Request.of(PausingServer.COLLECT, new byte[0]));
            CompletableFuture<Reply> collected = client.callAsync(Request.of(PausingServer.COLLECT, new byte[0]));
            List<CompletableFuture<Reply>> asked = new ArrayList<>();
            while (!collected.isDone()) {
                asked.add(client.callAsync(Request.of(PausingServer.ECHO, new byte[0])
                        .deadline(Duration.ofMillis(20))));
                Thread.sleep(2);
            }
            int refused = 0;
            for (CompletableFuture<Reply> each : asked) {
                try {
                    each.join();
                } catch (CompletionException failed) {
                    if (failed.getCause() instanceof Rejected rejected && rejected.stage().equals(Stage.PAUSE)) {
                        assertTrue(rejected.predicted().compareTo(Duration.ZERO) > 0, rejected.getMessage());
                        refused++;
                    }
                }
            }
            String pauses = new String(client.call(Request.of(PausingServer.PAUSES, new byte[0])));
            assertTrue(refused > 0, refused + " of " + asked.size() + " were refused; " + pauses);
            assertFalse(pauses.contains("count=0,"), pauses);
        } finally {
            process.getOutputStream().close();
            assertEquals(0, process.waitFor());
        }
    }
}
