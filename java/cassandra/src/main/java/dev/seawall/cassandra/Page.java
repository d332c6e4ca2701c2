package dev.seawall.cassandra;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import java.util.concurrent.Executors;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.UntypedResultSet;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.service.CassandraDaemon;

/**
 * One node of Cassandra in this process, and a web page in front of it: {@code GET /KEY}, {@code PUT /KEY}.
 *
 * <p>Usage: {@code Page PORT FOLDER STORAGE_PORT [MIB]}, the last of which it writes each second, to nobody's use.
 */
final class Page {
    private static final String READ = "select value from shop.item where key = ?";
    private static final String WRITE = "insert into shop.item (key, value) values (?, ?)";

    private Page() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 3) {
            System.err.println("usage: Page PORT FOLDER STORAGE_PORT [MIB]");
            System.exit(2);
        }
        int port = Integer.parseInt(arguments[0]);
        Path folder = Files.createDirectories(Path.of(arguments[1]).toAbsolutePath());
        configure(folder, Integer.parseInt(arguments[2]));
        new CassandraDaemon(true).activate();
        QueryProcessor.process("create keyspace if not exists shop with replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': 1} and durable_writes = false", ConsistencyLevel.ONE);
        QueryProcessor.process("create table if not exists shop.item (key text primary key, value blob)",
                ConsistencyLevel.ONE);

        System.setProperty("sun.net.httpserver.nodelay", "true"); // else each reply waits 40 ms for an acknowledgement
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", Page::serve);
        server.start();
        System.out.println("http://127.0.0.1:" + server.getAddress().getPort());
        if (arguments.length > 3) {
            write(Double.parseDouble(arguments[3]) * (1 << 20));
        }
    }

    private static void serve(HttpExchange exchange) throws IOException {
        try (exchange) {
            String key = exchange.getRequestURI().getPath();
            if (exchange.getRequestMethod().equals("PUT")) {
                ByteBuffer value = ByteBuffer.wrap(exchange.getRequestBody().readAllBytes());
                QueryProcessor.execute(WRITE, ConsistencyLevel.ONE, key, value);
                exchange.sendResponseHeaders(204, -1);
                return;
            }
            UntypedResultSet rows = QueryProcessor.execute(READ, ConsistencyLevel.ONE, key);
            byte[] body = rows.isEmpty() ? "no such key\n".getBytes(UTF_8) : bytes(rows.one().getBytes("value"));
            exchange.sendResponseHeaders(rows.isEmpty() ? 404 : 200, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    /** A batch of writes without end: values of 100 to 1000 bytes under a hundred thousand keys. */
    private static void write(double rate) throws InterruptedException {
        Random random = new Random(1);
        long begin = System.nanoTime();
        for (double written = 0;;) {
            double due = (System.nanoTime() - begin) / 1e9 * rate;
            if (written >= due) {
                Thread.sleep(1);
                continue;
            }
            byte[] value = new byte[random.nextInt(100, 1001)];
            QueryProcessor.execute(WRITE, ConsistencyLevel.ONE, "batch " + random.nextInt(100_000), ByteBuffer.wrap(value));
            written += value.length;
        }
    }

    private static void configure(Path folder, int storagePort) throws IOException {
        String yaml = """
                cluster_name: seawall
                partitioner: org.apache.cassandra.dht.Murmur3Partitioner
                endpoint_snitch: SimpleSnitch
                listen_address: 127.0.0.1
                rpc_address: 127.0.0.1
                start_native_transport: false
                storage_port: %d
                commitlog_sync: periodic
                commitlog_sync_period: 10000ms
                commitlog_directory: %s/commitlog
                saved_caches_directory: %s/caches
                hints_directory: %s/hints
                cdc_raw_directory: %s/cdc
                data_file_directories: [%s/data]
                seed_provider:
                  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
                    parameters:
                      - seeds: "127.0.0.1:%d"
                """.formatted(storagePort, folder, folder, folder, folder, folder, storagePort);
        Path file = folder.resolve("cassandra.yaml");
        Files.writeString(file, yaml);
        System.setProperty("cassandra.config", file.toUri().toString());
        System.setProperty("cassandra.storagedir", folder.toString());
        System.setProperty("cassandra.jmx.local.port", "0");
    }
}
