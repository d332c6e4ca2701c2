package dev.seawall;

/** The request was sent, and the deadline passed without a reply: whether it had an effect is unknown. */
public final class DeadlineExceeded extends CallException {
    private static final long serialVersionUID = 1;

    DeadlineExceeded(String message) {
        super(message);
    }
}
