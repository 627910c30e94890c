import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentMap;
import org.mapdb.DB;
import org.mapdb.DBMaker;
import org.mapdb.Serializer;

/** MapDB with its write-ahead log, one row a transaction. */
final class MapDb implements Engine {
    private final DB db;
    private final ConcurrentMap<Integer, String> map;

    MapDb(String directory) {
        db = DBMaker.fileDB(directory + "/d.mapdb").transactionEnable().make();
        map = db.hashMap("rows", Serializer.INTEGER, Serializer.STRING).createOrOpen();
        db.commit();
    }

    @Override
    public void commit(int number, String content) {
        map.put(number, content);
        db.commit();
    }

    @Override
    public Map<Integer, String> rows() {
        return new TreeMap<>(map);
    }

    @Override
    public void close() {
        db.close();
    }
}
