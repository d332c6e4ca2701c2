package dev.seawall;

import java.time.Duration;
import java.util.Map;

/**
 * What has happened at a server since it started.
 *
 * @param requests calls received, whatever became of them
 * @param completions calls served with a result
 * @param failures calls that ended in an error of the service
 * @param cancellations calls cancelled before they had a result
 * @param refused calls refused
 * @param refusals the same by the name of the stage
 * @param outstanding calls received and not yet answered
 * @param sessions connections that are open
 * @param bytesReceived bytes read
 * @param bytesSent bytes written
 * @param busy time that threads spent in handlers
 */
public record ServerStats(long requests, long completions, long failures, long cancellations, long refused,
        Map<String, Long> refusals, long outstanding, long sessions, long bytesReceived, long bytesSent,
        Duration busy) {}
