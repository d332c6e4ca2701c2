package dev.seawall.examples;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Random;

/** Transactions of a database in memory, H2: what a collector has to do for a program that nobody wrote for it. */
final class Rows implements AutoCloseable {
    private final Random random = new Random(3);
    private final Connection connection;
    private final int count;

    /** Holds about so many bytes. */
    Rows(long bytes) throws SQLException {
        count = (int) Math.max(1, bytes / 400);
        connection = DriverManager.getConnection("jdbc:h2:mem:rows");
        try (Statement statement = connection.createStatement()) {
            statement.execute("create table account (id int primary key, owner varchar, balance bigint)");
            statement.execute("create index by_owner on account (owner)");
        }
        try (PreparedStatement insert = connection.prepareStatement("insert into account values (?, ?, ?)")) {
            for (int id = 0; id < count; id++) {
                insert.setInt(1, id);
                insert.setString(2, "owner " + random.nextInt(count));
                insert.setLong(3, 1000);
                insert.executeUpdate();
            }
        }
    }

    /** So many transfers, each between accounts of two owners. */
    void transfer(int transfers) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement find = connection.prepareStatement("select id, balance from account where owner = ?");
                PreparedStatement move = connection.prepareStatement("update account set balance = ?, owner = ? where id = ?")) {
            for (int i = 0; i < transfers; i++) {
                String owner = "owner " + random.nextInt(count);
                find.setString(1, owner);
                try (ResultSet found = find.executeQuery()) {
                    while (found.next()) {
                        move.setLong(1, found.getLong(2) + random.nextInt(-10, 11));
                        move.setString(2, "owner " + random.nextInt(count));
                        move.setInt(3, found.getInt(1));
                        move.executeUpdate();
                    }
                }
                connection.commit();
            }
        }
    }

    @Override
    public void close() throws SQLException {
        connection.close();
    }
}
