package dev.seawall.examples;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** What follows a program's name: {@code --key value}. */
final class Arguments {
    private final Map<String, String> given = new HashMap<>();

    /**
     * Reads them.
     *
     * @throws IllegalArgumentException naming what is wrong and what is allowed
     */
    Arguments(String[] arguments, Set<String> known) {
        for (int i = 0; i < arguments.length; i += 2) {
            String name = arguments[i].replaceFirst("^--", "");
            if (!known.contains(name)) {
                throw new IllegalArgumentException("there is no " + arguments[i] + "; there are " + known);
            }
            if (i + 1 == arguments.length) {
                throw new IllegalArgumentException(arguments[i] + " needs a value");
            }
            given.put(name, arguments[i + 1]);
        }
    }

    String text(String name, String otherwise) {
        return given.getOrDefault(name, otherwise);
    }

    double number(String name, double otherwise) {
        String text = given.get(name);
        if (text == null) {
            return otherwise;
        }
        try {
            double number = Double.parseDouble(text);
            if (number >= 0 && Double.isFinite(number)) {
                return number;
            }
        } catch (NumberFormatException none) {
            // said below
        }
        throw new IllegalArgumentException("--" + name + " is " + text + "; allowed is a number from 0 on");
    }
}
