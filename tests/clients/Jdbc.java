import java.math.BigDecimal;
import java.sql.*;
import java.util.ArrayList;
import java.util.List;

/** The JDBC driver against the server: statements, batches, transactions, metadata. Argument: the port. */
public final class Jdbc {
    static List<String> rows(ResultSet rows, String... columns) throws SQLException {
        List<String> all = new ArrayList<>();
        while (rows.next()) {
            StringBuilder row = new StringBuilder();
            for (String column : columns) {
                row.append(row.length() == 0 ? "" : "|").append(rows.getString(column));
            }
            all.add(row.toString());
        }
        return all;
    }

    static void expect(Object expected, Object actual) {
        if (!expected.equals(actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/test?user=test&password=test";
        try (Connection connection = DriverManager.getConnection(url)) {
            try (Statement statement = connection.createStatement()) {
                statement.execute("CREATE TABLE owner (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name VARCHAR(30) NOT NULL)");
                statement.execute("CREATE TABLE pet (id INT PRIMARY KEY, owner BIGINT REFERENCES owner, weight NUMERIC(6,2))");
                statement.execute("CREATE INDEX pet_owner ON pet (owner)");
                statement.execute("CREATE FUNCTION weigh(p INT) RETURNS NUMERIC LANGUAGE plpgsql AS $$ DECLARE w NUMERIC; BEGIN SELECT weight INTO w FROM pet WHERE id = p; RETURN w; END $$");
            }
            long id;
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO owner (name) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
                insert.setString(1, "Ada");
                insert.executeUpdate();
                ResultSet keys = insert.getGeneratedKeys();
                keys.next();
                id = keys.getLong(1);
            }
            connection.setAutoCommit(false);
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO pet VALUES (?, ?, ?)")) {
                for (int i = 1; i <= 50; i++) {
                    insert.setInt(1, i);
                    insert.setLong(2, id);
                    insert.setBigDecimal(3, new BigDecimal(i).movePointLeft(1));
                    insert.addBatch();
                }
                expect(50, insert.executeBatch().length);
            }
            Savepoint savepoint = connection.setSavepoint();
            try (Statement statement = connection.createStatement()) {
                statement.executeUpdate("INSERT INTO pet VALUES (1, NULL, NULL)");
                throw new AssertionError("a key is taken");
            } catch (SQLException error) {
                expect("23505", error.getSQLState());
                connection.rollback(savepoint);
            }
            connection.commit();
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(7);
                ResultSet all = statement.executeQuery("SELECT id, weight FROM pet ORDER BY id");
                expect(50, rows(all, "id", "weight").size());
            }
            connection.rollback();
            connection.setAutoCommit(true);
            try (CallableStatement call = connection.prepareCall("{? = call weigh(?)}")) {
                call.registerOutParameter(1, Types.NUMERIC);
                call.setInt(2, 25);
                call.execute();
                expect(new BigDecimal("2.50"), call.getBigDecimal(1));
            }
            DatabaseMetaData about = connection.getMetaData();
            expect(15, about.getDatabaseMajorVersion());
            expect(List.of("owner|TABLE", "pet|TABLE"), rows(about.getTables(null, "public", "%e%", new String[] {"TABLE"}), "TABLE_NAME", "TABLE_TYPE").stream().filter(row -> row.startsWith("owner") || row.startsWith("pet")).toList());
            expect(List.of("id|int4|NO", "owner|int8|YES", "weight|numeric|YES"), rows(about.getColumns(null, "public", "pet", null), "COLUMN_NAME", "TYPE_NAME", "IS_NULLABLE"));
            expect(List.of("id|1|pet_pkey"), rows(about.getPrimaryKeys(null, "public", "pet"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
            expect(List.of("pet_pkey|f|id|1", "pet_owner|t|owner|1"), rows(about.getIndexInfo(null, "public", "pet", false, true), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME", "ORDINAL_POSITION"));
            expect(List.of("owner|id|pet|owner|pet_owner_fkey"), rows(about.getImportedKeys(null, "public", "pet"), "PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_NAME", "FKCOLUMN_NAME", "FK_NAME"));
            expect(List.of("information_schema", "pg_catalog", "public"), rows(about.getSchemas(), "TABLE_SCHEM"));
            rows(about.getCatalogs(), "TABLE_CAT");
        }
        System.out.println("JDBC: ok");
    }
}
