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
        ENGINES.put("iq80", Iq80::new);
        ENGINES.put("tape", Tape::new);
    }

    private Findings() {}

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
