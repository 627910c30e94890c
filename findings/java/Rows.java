import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;

/** Rows with content that follows from their number; the scheme is the one of lib/rows.py. */
final class Rows {
    /** Exit codes of a check, both bad to {@code seekless crash-test}. */
    private static final int LOST = 1;
    static final int DAMAGED = 3;

    private Rows() {}

    /** The rows that a workload commits: ROWS of the environment, else three. */
    static int count() {
        String rows = System.getenv("ROWS");
        return rows == null || rows.isEmpty() ? 3 : Integer.parseInt(rows);
    }

    /** The 512 characters of a row. */
    static String content(int number) {
        StringBuilder text = new StringBuilder();
        try {
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            for (int part = 0; part < 8; part++) {
                String words = "row " + number + " part " + part;
                byte[] digest = hash.digest(words.getBytes(StandardCharsets.UTF_8));
                text.append(HexFormat.of().formatHex(digest));
            }
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
        return text.toString();
    }

    /** Records that a row is committed. */
    static void acknowledge(int number) throws IOException {
        Path marks = Path.of(System.getenv("SEEKLESS_ACKS"));
        Files.writeString(
                marks, number + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** Ends the check at once, without what a database does at an exit. */
    static void end(int code, String message) {
        System.out.println(message.replaceAll("\\s+", " "));
        System.out.flush();
        Runtime.getRuntime().halt(code);
    }

    /** Ends the check with the verdict about the rows that it found. */
    static void judge(Map<Integer, String> rows) {
        for (int number = 1; number <= rows.size(); number++) {
            String there = rows.get(number);
            if (there == null) {
                end(DAMAGED, "damaged: row " + number + " is missing, but a later row is there");
            }
            if (!content(number).equals(there)) {
                end(DAMAGED, "damaged: row " + number + " has other content");
            }
        }
        String said = System.getenv("SEEKLESS_ACKED");
        int acknowledged = said == null || said.isEmpty() ? 0 : Integer.parseInt(said);
        if (rows.size() < acknowledged) {
            String last = "row " + rows.size() + " is the last one there";
            end(LOST, "lost: row " + acknowledged + " is acknowledged, " + last);
        }
        end(0, "good: " + rows.size() + " rows");
    }
}
