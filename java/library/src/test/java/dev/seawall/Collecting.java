package dev.seawall;

import java.util.ArrayList;
import java.util.List;

/** Collects so many times, when it is told to: a process with an agent. */
final class Collecting {
    private Collecting() {}

    public static void main(String[] arguments) throws Exception {
        List<byte[]> live = new ArrayList<>();
        for (int i = 0; i < 100_000; i++) {
            live.add(new byte[100]);
        }
        System.out.println("ready");
        System.in.read();
        for (int i = 0; i < Integer.parseInt(arguments[0]); i++) {
            System.gc();
            Thread.sleep(100); // the agent learns from it
        }
        Thread.sleep(300); // and writes down what it saw
        System.out.println("over " + live.size());
    }
}
