package dev.seawall;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.TimeGauge;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.concurrent.TimeUnit;
import java.util.function.ToDoubleFunction;

/** A server and the pauses of its process, for Micrometer. */
public final class SeawallMetrics implements MeterBinder {
    private static final Stage[] STAGES = {
        Stage.ADMISSION, Stage.SOCKET, Stage.RUN_QUEUE, Stage.HANDLER, Stage.CPU, Stage.PAUSE,
    };

    private final SeawallServer server;

    /**
     * Of a server.
     *
     * @param server is read whenever metrics are
     */
    public SeawallMetrics(SeawallServer server) {
        this.server = server;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        count(registry, "seawall.requests", "Calls received", ServerStats::requests);
        count(registry, "seawall.completions", "Calls served with a result", ServerStats::completions);
        count(registry, "seawall.failures", "Calls that ended in an error of the service", ServerStats::failures);
        count(registry, "seawall.cancellations", "Calls cancelled before they had a result",
                ServerStats::cancellations);
        for (Stage stage : STAGES) {
            FunctionCounter.builder("seawall.refusals", server, it -> refusals(it, stage))
                    .tag("stage", stage.toString()).description("Calls refused").register(registry);
        }
        Gauge.builder("seawall.outstanding", server, it -> it.stats().outstanding())
                .description("Calls received and not yet answered").register(registry);
        Gauge.builder("seawall.sessions", server, it -> it.stats().sessions()).description("Connections")
                .register(registry);
        FunctionTimer.builder("seawall.pauses", server, it -> Pauses.now().count(), it -> Pauses.now().total().toNanos(),
                TimeUnit.NANOSECONDS).description("Pauses of the collector").register(registry);
        TimeGauge.builder("seawall.pause.longest", server, TimeUnit.NANOSECONDS,
                it -> Pauses.now().longest().toNanos()).description("The longest of them").register(registry);
        Gauge.builder("seawall.pause.precision", server, it -> Pauses.now().ransac().precise())
                .description("Part of them that was predicted to 4 ms").register(registry);
    }

    private void count(MeterRegistry registry, String name, String description, ToDoubleFunction<ServerStats> value) {
        FunctionCounter.builder(name, server, it -> value.applyAsDouble(it.stats())).description(description)
                .register(registry);
    }

    private static double refusals(SeawallServer server, Stage stage) {
        return server.stats().refusals().getOrDefault(stage.toString(), 0L);
    }
}
