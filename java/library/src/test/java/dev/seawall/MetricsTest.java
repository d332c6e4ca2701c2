package dev.seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import org.junit.jupiter.api.Test;

class MetricsTest {
    @Test
    void allIsCounted() throws Exception {
        SimpleMeterRegistry registry = new SimpleMeterRegistry();
        try (SeawallServer server = ServerTest.server().method(1, "echo", (context, payload) -> payload).start();
                SeawallClient client = ServerTest.client(server)) {
            new SeawallMetrics(server).bindTo(registry);
            client.call(Request.of(1, new byte[0]));
            client.call(Request.of(1, new byte[0]));
            assertEquals(2, registry.get("seawall.requests").functionCounter().count());
            assertEquals(2, registry.get("seawall.completions").functionCounter().count());
            assertEquals(0, registry.get("seawall.refusals").tag("stage", "pause").functionCounter().count());
            assertEquals(1, registry.get("seawall.sessions").gauge().value());
            assertEquals(Pauses.now().count(), (long) registry.get("seawall.pauses").functionTimer().count());
        }
    }
}
