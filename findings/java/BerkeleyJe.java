import com.sleepycat.je.Cursor;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.OperationStatus;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/** Berkeley DB Java Edition with synchronous commits. */
final class BerkeleyJe implements Engine {
    private final Environment environment;
    private final Database database;

    BerkeleyJe(String directory) {
        File home = new File(directory, "d");
        home.mkdirs();
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true).setTransactional(true).setDurability(Durability.COMMIT_SYNC);
        config.setConfigParam(EnvironmentConfig.FREE_DISK, "0");
        environment = new Environment(home, config);
        DatabaseConfig tree = new DatabaseConfig().setAllowCreate(true).setTransactional(true);
        database = environment.openDatabase(null, "rows", tree);
    }

    private static DatabaseEntry entry(String text) {
        return new DatabaseEntry(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(DatabaseEntry entry) {
        return new String(entry.getData(), StandardCharsets.UTF_8);
    }

    @Override
    public void commit(int number, String content) {
        database.put(null, entry(String.valueOf(number)), entry(content));
    }

    @Override
    public Map<Integer, String> rows() {
        Map<Integer, String> rows = new TreeMap<>();
        DatabaseEntry key = new DatabaseEntry();
        DatabaseEntry value = new DatabaseEntry();
        try (Cursor cursor = database.openCursor(null, null)) {
            while (cursor.getNext(key, value, null) == OperationStatus.SUCCESS) {
                rows.put(Integer.valueOf(text(key)), text(value));
            }
        }
        return rows;
    }

    @Override
    public void close() {
        database.close();
        environment.close();
    }
}
