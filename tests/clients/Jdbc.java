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

    /** Dates in another time zone: the driver names its zone as it connects, and reads values in it. */
    static void inZone(String url, String zone, String offset) throws SQLException {
        java.util.TimeZone before = java.util.TimeZone.getDefault();
        java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone(zone));
        try (Connection connection = DriverManager.getConnection(url); Statement statement = connection.createStatement()) {
            ResultSet shown = statement.executeQuery("SHOW TimeZone");
            shown.next();
            expect(zone, shown.getString(1));
            statement.execute("DROP TABLE IF EXISTS zoned");
            statement.execute("CREATE TABLE zoned (id INT PRIMARY KEY, at TIMESTAMPTZ, day DATE, local TIMESTAMP)");
            Timestamp noon = Timestamp.valueOf("2024-07-01 12:00:00");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO zoned VALUES (?, ?, ?, ?)")) {
                for (int i = 1; i <= 8; i++) { // from the fifth time on, the statement has a name
                    insert.setInt(1, i);
                    insert.setTimestamp(2, noon);
                    insert.setDate(3, Date.valueOf("2024-07-01"));
                    insert.setTimestamp(4, noon);
                    insert.executeUpdate();
                }
            }
            try (PreparedStatement query = connection.prepareStatement("SELECT at, at::text, at::date, day, local, now()::date = current_date FROM zoned WHERE at::date = day AND at = local AND at = ? ORDER BY id")) {
                for (int i = 1; i <= 8; i++) { // from the fifth time on, values travel in binary
                    query.setTimestamp(1, noon);
                    ResultSet found = query.executeQuery();
                    for (int row = 1; row <= 8; row++) {
                        expect(true, found.next());
                        expect(noon, found.getTimestamp(1));
                        expect("2024-07-01 12:00:00" + offset, found.getString(2));
                        expect(Date.valueOf("2024-07-01"), found.getDate(3));
                        expect(Date.valueOf("2024-07-01"), found.getDate(4));
                        expect(noon, found.getTimestamp(5));
                        expect(true, found.getBoolean(6));
                    }
                }
            }
        } finally {
            java.util.TimeZone.setDefault(before);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/test?user=test&password=test";
        try (Connection connection = DriverManager.getConnection(url)) {
            try (Statement statement = connection.createStatement()) {
                statement.execute("CREATE TABLE owner (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name VARCHAR(30) NOT NULL)");
                statement.execute("CREATE TABLE pet (id INT PRIMARY KEY, owner BIGINT REFERENCES owner, weight NUMERIC(6,2))");
                statement.execute("CREATE INDEX pet_owner ON pet (owner)");
                statement.execute("CREATE TABLE mixed (id BIGINT PRIMARY KEY, note VARCHAR(12), size FLOAT8, small INT, at TIMESTAMP)");
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
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO mixed VALUES (?, ?, ?, ?, ?)")) {
                // The driver names these types when it prepares, and refuses other types in the description.
                for (int i = 1; i <= 3; i++) {
                    insert.setInt(1, i);
                    insert.setString(2, "row " + i);
                    insert.setFloat(3, i / 2f);
                    insert.setShort(4, (short) i);
                    insert.setTimestamp(5, i == 2 ? null : Timestamp.valueOf("2024-02-29 12:00:00"));
                    insert.addBatch();
                }
                expect(3, insert.executeBatch().length);
                insert.setLong(1, 4);
                insert.setNull(2, Types.VARCHAR);
                insert.setDouble(3, 0.25);
                insert.setNull(4, Types.INTEGER);
                insert.setNull(5, Types.TIMESTAMP);
                insert.addBatch();
                insert.setInt(1, 5);
                insert.setString(2, "five");
                insert.setBigDecimal(3, new BigDecimal("1.5"));
                insert.setInt(4, 7);
                insert.setNull(5, Types.TIMESTAMP);
                insert.addBatch();
                expect(2, insert.executeBatch().length);
            }
            try (Statement statement = connection.createStatement()) {
                ResultSet all = statement.executeQuery("SELECT id AS key, note, size, small FROM mixed ORDER BY id");
                ResultSetMetaData columns = all.getMetaData();
                expect("mixed|id|key", ((org.postgresql.PGResultSetMetaData) columns).getBaseTableName(1) + "|"
                    + ((org.postgresql.PGResultSetMetaData) columns).getBaseColumnName(1) + "|" + columns.getColumnLabel(1));
                expect("12|varchar", columns.getPrecision(2) + "|" + columns.getColumnTypeName(2));
                expect(ResultSetMetaData.columnNoNulls, columns.isNullable(1));
                expect(List.of("1|row 1|0.5|1", "2|row 2|1|2", "3|row 3|1.5|3", "4|null|0.25|null", "5|five|1.5|7"),
                    rows(all, "key", "note", "size", "small"));
                Array array = connection.createArrayOf("int4", new Integer[] {1, 3, 9});
                try (PreparedStatement any = connection.prepareStatement("SELECT array_agg(id ORDER BY id) FROM mixed WHERE id = ANY (?)")) {
                    any.setArray(1, array);
                    for (int i = 0; i < 10; i++) { // from the fifth time on, values travel in binary
                        ResultSet found = any.executeQuery();
                        found.next();
                        expect(List.of(1L, 3L), List.of((Object[]) found.getArray(1).getArray()));
                    }
                }
            }
            Savepoint savepoint = connection.setSavepoint();
            try (Statement statement = connection.createStatement()) {
                statement.executeUpdate("INSERT INTO pet VALUES (1, NULL, NULL)");
                throw new AssertionError("a key is taken");
            } catch (SQLException error) {
                expect("23505", error.getSQLState());
                org.postgresql.util.ServerErrorMessage told = ((org.postgresql.util.PSQLException) error).getServerErrorMessage();
                expect("pet_pkey|Key (id)=(1) already exists.", told.getConstraint() + "|" + told.getDetail());
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
        inZone(url, "America/New_York", "-04");
        inZone(url, "Asia/Kolkata", "+05:30");
        System.out.println("JDBC: ok");
    }
}
