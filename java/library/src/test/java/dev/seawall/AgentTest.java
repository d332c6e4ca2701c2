package dev.seawall;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The agent in virtual machines of its own, well and badly started. */
@Timeout(120)
class AgentTest {
    private static final int COLLECTIONS = 5;

    @TempDir
    private Path folder;

    private static Path library() throws Exception {
        return Path.of(Objects.requireNonNull(
                AgentTest.class.getResource("/META-INF/native/linux-amd64/libseawall_jvm.so")).toURI());
    }

    private static String agent(String options) throws Exception {
        return "-agentpath:" + library() + "=" + options;
    }

    private Process start(String... options) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-Xmx256m"));
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Collecting.class.getName(),
                String.valueOf(COLLECTIONS)));
        return new ProcessBuilder(command).redirectError(said()).redirectOutput(printed()).start();
    }

    private File said() {
        return folder.resolve("said").toFile();
    }

    private File printed() {
        return folder.resolve("printed").toFile();
    }

    /** What it says on standard error, until it ends as it should. */
    private String finish(Process process) throws Exception {
        process.getOutputStream().close();
        int code = process.waitFor();
        String said = Files.readString(said().toPath());
        assertEquals(0, code, said);
        return said;
    }

    private List<String> recorded() throws Exception {
        return Files.readAllLines(folder.resolve("record.csv"));
    }

    private String recording() throws Exception {
        return agent("record=" + folder.resolve("record.csv"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"-XX:+UseParallelGC", "-XX:+UseG1GC", "-XX:+UseSerialGC"})
    void eachPauseIsRecorded(String collector) throws Exception {
        String said = finish(start(collector, recording()));
        assertEquals("", said);
        List<String> rows = recorded();
        assertTrue(rows.size() > COLLECTIONS, rows.toString());
        String last = rows.get(rows.size() - 1);
        String[] cells = last.split(",");
        assertEquals("full", cells[1], last);
        assertTrue(Long.parseLong(cells[12]) > 0 && Long.parseLong(cells[10]) > 0, "real and predicted: " + last);
        assertTrue(Long.parseLong(cells[4]) > 1 << 20, "what is old: " + last);
    }

    @Test
    void withoutCountersAllPausesAreOfOneKind() throws Exception {
        String said = finish(start("-XX:+UseParallelGC", "-XX:-UsePerfData", recording()));
        assertTrue(said.contains("all pauses are taken for those of one kind"), said);
        assertTrue(recorded().size() > COLLECTIONS, recorded().toString());
    }

    @Test
    void whoNeverStopsTheWorldHasNothingToPredict() throws Exception {
        String said = finish(start("-XX:+UseZGC", recording()));
        assertTrue(said.contains("ZGC does not stop the world"), said);
        assertEquals(1, recorded().size());
    }

    @Test
    void theSecondAgentDoesNothing() throws Exception {
        Path copy = Files.copy(library(), folder.resolve("libcopy.so"));
        String said = finish(start("-XX:+UseParallelGC", recording(), "-agentpath:" + copy + "=port=8080"));
        assertTrue(said.contains("the agent was loaded before; this time it does nothing"), said);
        assertTrue(recorded().size() > COLLECTIONS, recorded().toString());
    }

    @Test
    void aRunningServiceTakesTheAgentToo() throws Exception {
        Process process = start("-XX:+UseG1GC");
        while (!Files.readString(printed().toPath()).startsWith("ready")) {
            Thread.sleep(10);
        }
        String jcmd = System.getProperty("java.home") + "/bin/jcmd";
        for (int time = 0; time < 2; time++) {
            Process attach = new ProcessBuilder(jcmd, String.valueOf(process.pid()), "JVMTI.agent_load",
                    library().toString(), "\"record=" + folder.resolve("record.csv") + "\"").redirectErrorStream(true).start();
            String answer = new String(attach.getInputStream().readAllBytes());
            assertEquals(0, attach.waitFor(), answer);
            assertTrue(answer.contains("return code: 0"), answer);
        }
        String said = finish(process);
        assertTrue(said.contains("loaded before"), said);
        assertTrue(recorded().size() > COLLECTIONS, recorded().toString());
    }

    @Test
    void badOptionsStopTheStartAndNameWhatIsAllowed() throws Exception {
        Process process = start(agent("fit=best"));
        process.getOutputStream().close();
        assertNotEquals(0, process.waitFor());
        String said = Files.readString(said().toPath());
        assertTrue(said.contains("fit=best") && said.contains("fit=ransac or ols"), said);
    }

    @Test
    void aRecordThatCannotBeWrittenStopsNothing() throws Exception {
        String said = finish(start("-XX:+UseParallelGC", agent("record=/nowhere/record.csv")));
        assertTrue(said.contains("/nowhere/record.csv"), said);
    }
}
