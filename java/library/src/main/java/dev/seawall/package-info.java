/**
 * Services that stay fast when more work arrives than they can do, and whose requests do not wait for a garbage
 * collector.
 *
 * <p>A {@link dev.seawall.SeawallServer} reads, judges, refuses and answers on native threads that no collector stops; its
 * {@linkplain dev.seawall.Handler handlers} are Java. A {@link dev.seawall.SeawallClient} waits for credits, and sends
 * what one replica refuses to another.
 */
package dev.seawall;
