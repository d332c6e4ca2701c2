package dev.seawall;

/** The request was never sent, and so had no effect. */
public final class NotSent extends CallException {
    private static final long serialVersionUID = 1;

    NotSent(String message) {
        super(message);
    }
}
