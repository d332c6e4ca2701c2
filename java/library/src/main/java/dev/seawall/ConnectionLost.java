package dev.seawall;

/** The request was sent, and the connection ended without a reply: whether it had an effect is unknown. */
public final class ConnectionLost extends CallException {
    private static final long serialVersionUID = 1;

    ConnectionLost(String message) {
        super(message);
    }
}
