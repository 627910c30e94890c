import java.util.Map;
import java.util.TreeMap;
import jetbrains.exodus.bindings.IntegerBinding;
import jetbrains.exodus.bindings.StringBinding;
import jetbrains.exodus.env.Cursor;
import jetbrains.exodus.env.Environment;
import jetbrains.exodus.env.EnvironmentConfig;
import jetbrains.exodus.env.Environments;
import jetbrains.exodus.env.Store;
import jetbrains.exodus.env.StoreConfig;

/** Xodus with durable writes, one row a transaction. */
final class Xodus implements Engine {
    private final Environment environment;
    private final Store store;

    Xodus(String directory) {
        EnvironmentConfig config = new EnvironmentConfig().setLogDurableWrite(true);
        environment = Environments.newInstance(directory + "/d", config);
        store =
                environment.computeInTransaction(
                        txn ->
                                environment.openStore(
                                        "rows", StoreConfig.WITHOUT_DUPLICATES, txn));
    }

    @Override
    public void commit(int number, String content) {
        environment.executeInTransaction(
                txn ->
                        store.put(
                                txn,
                                IntegerBinding.intToEntry(number),
                                StringBinding.stringToEntry(content)));
    }

    @Override
    public Map<Integer, String> rows() {
        Map<Integer, String> rows = new TreeMap<>();
        environment.executeInReadonlyTransaction(
                txn -> {
                    try (Cursor cursor = store.openCursor(txn)) {
                        while (cursor.getNext()) {
                            rows.put(
                                    IntegerBinding.entryToInt(cursor.getKey()),
                                    StringBinding.entryToString(cursor.getValue()));
                        }
                    }
                });
        return rows;
    }

    @Override
    public void close() {
        environment.close();
    }
}
