import static org.iq80.leveldb.impl.Iq80DBFactory.asString;
import static org.iq80.leveldb.impl.Iq80DBFactory.bytes;
import static org.iq80.leveldb.impl.Iq80DBFactory.factory;

import java.io.File;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.WriteOptions;

/** The port of LevelDB to Java, with synchronous writes. */
final class Iq80 implements Engine {
    private final DB db;

    Iq80(String directory) throws IOException {
        db = factory.open(new File(directory, "d"), new Options().paranoidChecks(true));
    }

    @Override
    public void commit(int number, String content) {
        db.put(bytes(String.valueOf(number)), bytes(content), new WriteOptions().sync(true));
    }

    @Override
    public Map<Integer, String> rows() {
        Map<Integer, String> rows = new TreeMap<>();
        for (Map.Entry<byte[], byte[]> pair : db) {
            rows.put(Integer.valueOf(asString(pair.getKey())), asString(pair.getValue()));
        }
        return rows;
    }

    @Override
    public void close() throws IOException {
        db.close();
    }
}
