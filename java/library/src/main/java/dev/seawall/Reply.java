package dev.seawall;

/**
 * A result.
 *
 * @param payload what the handler gave
 * @param attempts how often the request was sent until then, to as many replicas
 */
public record Reply(byte[] payload, int attempts) {}
