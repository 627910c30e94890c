import java.util.Map;
import java.util.TreeMap;

/**
 * Workloads and checks of embedded databases in Java, for seekless crash-test.
 *
 * <p>usage: Findings ENGINE setup|run|check DIRECTORY
 */
public final class Findings {
    private static final Map<String, Engine.Open> ENGINES = new TreeMap<>();

    static {
        ENGINES.put("derby", at -> new Sql("jdbc:derby:" + at + "/d;create=true", at));
        ENGINES.put("h2", at -> new Sql("jdbc:h2:" + at + "/d", at));
        ENGINES.put("h2-sync", at -> new Sql("jdbc:h2:" + at + "/d", at, "CHECKPOINT SYNC"));
        ENGINES.put("hsqldb", Findings::hsqldb);
        ENGINES.put("iq80", Iq80::new);
        ENGINES.put("je", BerkeleyJe::new);
        ENGINES.put("lucene", Lucene::new);
        ENGINES.put("mapdb", MapDb::new);
        ENGINES.put("tape", Tape::new);
        ENGINES.put("xodus", Xodus::new);
    }

    private Findings() {}

    /** HSQLDB with a table on disk, and a sync with each commit. */
    private static Engine hsqldb(String at) throws Exception {
        return new Sql("jdbc:hsqldb:file:" + at + "/d;hsqldb.default_table_type=cached", at)
                .first("SET FILES WRITE DELAY FALSE");
    }

    /** Does what the words say. */
    public static void main(String[] words) throws Exception {
        Engine.Open open = ENGINES.get(words[0]);
        String directory = words[2];
        if (words[1].equals("check")) {
            try {
                Rows.judge(open.in(directory).rows());
            } catch (Throwable error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                Rows.end(Rows.DAMAGED, "damaged: " + cause);
            }
        }
        Engine engine = open.in(directory);
        if (words[1].equals("run")) {
            for (int number = 1; number <= Rows.count(); number++) {
                engine.commit(number, Rows.content(number));
                Rows.acknowledge(number);
            }
        }
        engine.close();
        System.exit(0);
    }
}
