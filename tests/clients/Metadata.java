import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLFeatureNotSupportedException;
import java.util.Set;

/** Every method of JDBC's DatabaseMetaData answers, with rows that can be read. Arguments: the port, a table with keys. */
public final class Metadata {
    /** Methods that need a table as their third argument. */
    static final Set<String> OF_A_TABLE = Set.of("getPrimaryKeys", "getImportedKeys", "getExportedKeys", "getIndexInfo",
        "getBestRowIdentifier", "getVersionColumns", "getColumnPrivileges", "getCrossReference");

    static int read(ResultSet rows) throws Exception {
        int count = 0;
        for (; rows.next(); count++) {
            for (int column = 1; column <= rows.getMetaData().getColumnCount(); column++) {
                rows.getString(column);
            }
        }
        return count;
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/test?user=test&password=test";
        int methods = 0;
        try (Connection connection = DriverManager.getConnection(url)) {
            DatabaseMetaData metadata = connection.getMetaData();
            for (Method method : DatabaseMetaData.class.getDeclaredMethods()) {
                Class<?>[] types = method.getParameterTypes();
                Object[] values = new Object[types.length];
                for (int i = 0; i < types.length; i++) {
                    values[i] = types[i] == int.class ? (Object) 1 : types[i] == boolean.class ? (Object) false : null;
                }
                if (OF_A_TABLE.contains(method.getName())) {
                    values[2] = arguments[1];
                }
                try {
                    Object answer = method.invoke(metadata, values);
                    if (answer instanceof ResultSet && read((ResultSet) answer) == 0 && method.getName().equals("getPrimaryKeys")) {
                        throw new AssertionError("no key of " + arguments[1]);
                    }
                    methods++;
                } catch (InvocationTargetException error) {
                    if (!(error.getCause() instanceof SQLFeatureNotSupportedException)) {
                        throw new AssertionError(method.toString(), error.getCause());
                    }
                }
            }
        }
        if (methods < 150) {
            throw new AssertionError(methods + " methods answer");
        }
        System.out.println("JDBC: the metadata answers");
    }
}
