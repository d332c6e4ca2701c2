package dev.seawall;

/** Why a call has no result. */
public abstract sealed class CallException extends Exception
        permits Rejected, Failed, NotSent, Cancelled, DeadlineExceeded, ConnectionLost {
    private static final long serialVersionUID = 1;

    /** How often the request was sent; 0 if it never left. */
    private int attempts;

    CallException(String message) {
        super(message);
    }

    CallException(String message, boolean withStack) {
        super(message, null, false, withStack);
    }

    /**
     * How often the request was sent, to as many replicas.
     *
     * @return 0 if it never left, or if this was not thrown by a client
     */
    public int attempts() {
        return attempts;
    }

    CallException after(int attempts) {
        this.attempts = attempts;
        return this;
    }
}
