package dev.seawall;

/** The call was given up, by its caller or by the server because its deadline had passed. */
public final class Cancelled extends CallException {
    private static final long serialVersionUID = 1;

    Cancelled(String message) {
        super(message);
    }
}
