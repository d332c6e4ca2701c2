package dev.seawall;

/** The handler ran, and failed. */
public final class Failed extends CallException {
    /** The request makes no sense. Codes below 256 are gRPC's. */
    public static final int INVALID = 3;

    /** What it asks for does not exist. */
    public static final int NOT_FOUND = 5;

    /** Something that the request needs has run out, such as memory. */
    public static final int RESOURCE_EXHAUSTED = 8;

    /** The method does not exist. */
    public static final int UNIMPLEMENTED = 12;

    /** The handler has a defect. */
    public static final int INTERNAL = 13;

    private static final long serialVersionUID = 1;

    /** What went wrong. */
    private final int code;

    /**
     * A failure.
     *
     * @param code what went wrong: one of the constants, or a number of the service's own from 256 to 65535
     * @param message the same in words, for the client
     */
    public Failed(int code, String message) {
        super(message);
        if (code < 0 || code > 0xffff) {
            throw new IllegalArgumentException("code " + code + " is out of range; allowed is 0 to 65535");
        }
        this.code = code;
    }

    /**
     * What went wrong.
     *
     * @return the code
     */
    public int code() {
        return code;
    }
}
