package dev.seawall.internal;

import java.time.Duration;
import java.util.Collection;
import java.util.stream.Collectors;

/** Configuration, as the native side reads it. */
public final class Toml {
    private final StringBuilder text = new StringBuilder();

    /** Sets a text. */
    public Toml set(String key, String value) {
        return line(key, quoted(value));
    }

    /** Sets a number. */
    public Toml set(String key, Number value) {
        return line(key, value.toString());
    }

    /** Sets a time. */
    public Toml set(String key, Duration value) {
        return line(key, quoted(value.toNanos() + "ns"));
    }

    /** Sets texts. */
    public Toml set(String key, Collection<String> values) {
        return line(key, values.stream().map(Toml::quoted).collect(Collectors.joining(", ", "[", "]")));
    }

    /** Adds what is written so already. */
    public Toml add(String lines) {
        text.append(lines).append('\n');
        return this;
    }

    @Override
    public String toString() {
        return text.toString();
    }

    private Toml line(String key, String value) {
        text.append(key).append(" = ").append(value).append('\n');
        return this;
    }

    private static String quoted(String value) {
        StringBuilder quoted = new StringBuilder("\"");
        value.chars().forEach(each -> {
            if (each == '"' || each == '\\') {
                quoted.append('\\').append((char) each);
            } else if (each < ' ' || each == 0x7f) {
                quoted.append(String.format("\\u%04X", each));
            } else {
                quoted.append((char) each);
            }
        });
        return quoted.append('"').toString();
    }
}
