package dev.seawall;

/** Serves the calls of one method. */
@FunctionalInterface
public interface Handler {
    /**
     * Serves one call, on one of the server's handler threads.
     *
     * @param context what is known of the call: ask it before something that takes long
     * @param payload the argument; may be empty
     * @return the result; may be empty, but not null
     * @throws Rejected if a stage refuses the call before it has had an effect: the client may go to another replica
     * @throws Failed if it failed, with a code and a message for the client
     * @throws Exception anything else is a failure with code {@link Failed#INTERNAL}
     */
    byte[] handle(Context context, byte[] payload) throws Exception;
}
