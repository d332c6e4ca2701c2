package dev.seawall.internal;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;

/** Finds the native library. */
final class Library {
    private static final String NAME = "libseawall_jvm.so";
    private static final String PROPERTY = "seawall.library.path";

    private Library() {}

    /**
     * Loads it: from where the property says, or where the agent came from, or out of the jar.
     *
     * @throws UnsatisfiedLinkError with what to do about it
     */
    static void load() {
        String given = System.getProperty(PROPERTY);
        if (given != null) {
            System.load(Path.of(given).toAbsolutePath().toString());
            return;
        }
        Optional<Path> agent = loaded();
        if (agent.isPresent()) {
            try {
                System.load(agent.get().toString());
                return;
            } catch (UnsatisfiedLinkError taken) {
                // By another class loader, or its file is gone: then this one has a copy.
            }
        }
        Path copy = unpacked();
        try {
            System.load(copy.toString());
        } finally { // once loaded it needs no name, and nothing is left of it however the process ends
            copy.toFile().delete();
            copy.getParent().toFile().delete();
        }
    }

    /** The file that this process has loaded already, with -agentpath: there is to be one of it. */
    private static Optional<Path> loaded() {
        try {
            String maps = new String(Files.readAllBytes(Path.of("/proc/self/maps")), StandardCharsets.UTF_8);
            return maps.lines().filter(map -> map.endsWith("/" + NAME))
                    .map(map -> Path.of(map.substring(map.indexOf('/')))).findFirst();
        } catch (IOException | InvalidPathException unknown) {
            return Optional.empty();
        }
    }

    private static Path unpacked() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String platform = system + "-" + System.getProperty("os.arch");
        String resource = "/META-INF/native/" + platform + "/" + NAME;
        try (InputStream library = Library.class.getResourceAsStream(resource)) {
            if (library == null) {
                throw new UnsatisfiedLinkError("Seawall has no library for " + platform + " in its jar; it is there for"
                        + " linux-amd64. Build one with `cargo build --release --package seawall-jvm`, and name it with"
                        + " -D" + PROPERTY + "=/path/" + NAME);
            }
            Path folder = Files.createTempDirectory("seawall-");
            Path file = folder.resolve(NAME);
            Files.copy(library, file);
            return file;
        } catch (IOException problem) {
            throw new UnsatisfiedLinkError("Seawall cannot unpack its library: " + problem + "; name one with -D"
                    + PROPERTY + "=/path/" + NAME);
        }
    }
}
