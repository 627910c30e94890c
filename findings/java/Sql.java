import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import java.util.TreeMap;

/** A database with a driver of JDBC, one row a transaction. */
final class Sql implements Engine {
    private final Connection connection;
    private final String url;
    private final String after;

    Sql(String url, String directory) throws SQLException {
        this(url, directory, null);
    }

    /** After each commit the statement {@code after} runs, if there is one. */
    Sql(String url, String directory, String after) throws SQLException {
        System.setProperty("derby.stream.error.file", "/dev/null");
        System.setProperty("hsqldb.reconfig_logging", "false");
        this.url = url;
        this.after = after;
        connection = DriverManager.getConnection(url);
        if (!connection.getMetaData().getTables(null, null, "DATA_ROWS", null).next()) {
            execute("CREATE TABLE data_rows (number INT PRIMARY KEY, content VARCHAR(600))");
        }
    }

    private void execute(String words) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(words);
        }
    }

    /** Runs a statement before any row is committed. */
    Sql first(String words) throws SQLException {
        execute(words);
        return this;
    }

    @Override
    public void commit(int number, String content) throws SQLException {
        String words = "INSERT INTO data_rows VALUES (?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(words)) {
            statement.setInt(1, number);
            statement.setString(2, content);
            statement.execute();
        }
        if (after != null) {
            execute(after);
        }
    }

    @Override
    public Map<Integer, String> rows() throws SQLException {
        Map<Integer, String> rows = new TreeMap<>();
        try (Statement statement = connection.createStatement();
                ResultSet all = statement.executeQuery("SELECT * FROM data_rows")) {
            while (all.next()) {
                rows.put(all.getInt(1), all.getString(2));
            }
        }
        return rows;
    }

    @Override
    public void close() throws SQLException {
        if (url.startsWith("jdbc:derby")) {
            try {
                DriverManager.getConnection("jdbc:derby:;shutdown=true");
            } catch (SQLException end) {
                // Derby reports the end as an exception.
            }
        } else if (url.startsWith("jdbc:hsqldb")) {
            execute("SHUTDOWN");
        } else {
            connection.close();
        }
    }
}
