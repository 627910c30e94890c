import java.util.Map;

/** A database that holds rows. */
interface Engine {
    /** Stores one row, durably by the documentation of the database. */
    void commit(int number, String content) throws Exception;

    /** All rows. */
    Map<Integer, String> rows() throws Exception;

    /** Ends the use of the database. */
    void close() throws Exception;

    /** Opens a database in a directory, and makes it if it is not there. */
    interface Open {
        Engine in(String directory) throws Exception;
    }
}
