package dev.seawall;

import dev.seawall.internal.Native;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.Map;

/** Finds the handler of a call, and tells the native side how it ended. Called by native code, on handler threads. */
final class Dispatcher implements Native.Dispatcher {
    private static final Logger LOG = System.getLogger("dev.seawall");

    private final Map<Integer, Handler> handlers;

    Dispatcher(Map<Integer, Handler> handlers) {
        this.handlers = Map.copyOf(handlers);
    }

    @Override
    public byte[] dispatch(int method, long id, long arrived, long deadline, long budget, int priority, int tenant,
            int attempt, boolean droppable, byte[] payload) {
        Context context = null;
        try {
            context = new Context(method, id, arrived, deadline, budget, priority, tenant, attempt, droppable);
            Context.enter(context);
            byte[] result = handlers.get(method).handle(context, payload);
            if (result == null) {
                Native.fail(Failed.INTERNAL, "the handler returned null");
            }
            return result;
        } catch (Rejected rejected) {
            Native.refuse(rejected.stage().number(), rejected.predictedNanos(), rejected.remainingNanos(),
                    rejected.retryAfterNanos());
        } catch (Failed failed) {
            Native.fail(failed.code(), String.valueOf(failed.getMessage()));
        } catch (OutOfMemoryError error) {
            Native.fail(Failed.RESOURCE_EXHAUSTED, null); // which makes nothing more here
        } catch (Throwable defect) {
            Native.fail(Failed.INTERNAL, defect.toString());
            LOG.log(Level.ERROR, "a handler threw", defect);
        } finally {
            Context.enter(null);
            Thread.interrupted(); // of whom it was meant for, nothing is left here
            if (context != null && context.chargedNanos() > 0) {
                Native.charge(context.chargedNanos());
            }
        }
        return null;
    }
}
