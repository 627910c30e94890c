import com.squareup.tape.QueueFile;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/** The file queue of Tape. The number of a row stands before its content. */
final class Tape implements Engine {
    /** Each row is so large that the file must grow now and then. */
    private static final int REPEAT = 3;

    private final QueueFile queue;

    Tape(String directory) throws IOException {
        queue = new QueueFile(new File(directory, "d.tape"));
    }

    @Override
    public void commit(int number, String content) throws IOException {
        String row = number + ":" + content.repeat(REPEAT);
        queue.add(row.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public Map<Integer, String> rows() throws IOException {
        Map<Integer, String> rows = new TreeMap<>();
        while (!queue.isEmpty()) {
            String[] parts = new String(queue.peek(), StandardCharsets.UTF_8).split(":", 2);
            int number = Integer.parseInt(parts[0]);
            boolean whole = parts[1].equals(Rows.content(number).repeat(REPEAT));
            rows.put(number, whole ? Rows.content(number) : parts[1]);
            queue.remove();
        }
        return rows;
    }

    @Override
    public void close() throws IOException {
        queue.close();
    }
}
