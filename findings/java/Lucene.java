import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.Field;
import org.apache.lucene.index.CheckIndex;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;

/** Lucene, one document a commit. */
final class Lucene implements Engine {
    private final Directory directory;
    private IndexWriter writer;

    Lucene(String path) throws IOException {
        directory = FSDirectory.open(Path.of(path, "d"));
    }

    private IndexWriter writer() throws IOException {
        if (writer == null) {
            writer = new IndexWriter(directory, new IndexWriterConfig());
            writer.commit();
        }
        return writer;
    }

    @Override
    public void commit(int number, String content) throws IOException {
        Document document = new Document();
        document.add(new StringField("number", String.valueOf(number), Field.Store.YES));
        document.add(new StoredField("content", content));
        writer().addDocument(document);
        writer().commit();
    }

    @Override
    public Map<Integer, String> rows() throws IOException {
        try (CheckIndex check = new CheckIndex(directory)) {
            if (!check.checkIndex().clean) {
                throw new IOException("CheckIndex finds damage");
            }
        }
        Map<Integer, String> rows = new TreeMap<>();
        try (DirectoryReader reader = DirectoryReader.open(directory)) {
            for (int index = 0; index < reader.maxDoc(); index++) {
                Document document = reader.storedFields().document(index);
                rows.put(Integer.valueOf(document.get("number")), document.get("content"));
            }
        }
        return rows;
    }

    @Override
    public void close() throws IOException {
        writer().close();
    }
}
