//! Acknowledgements over a Unix socket, for recordings of an NBD export.
//!
//! A client sends lines. Each line becomes a mark of the recording, and then the client gets `ok`.
//! A client that waits for that knows: the mark stands behind every answer that it had before. A
//! line that is no value gets `error: ` and the cause, and the connection goes on.

use super::recorder::Recorder;
use super::tape::{MOST_MARK_BYTES, check_mark};
use seekless_serve::nbd::uri::Socket;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};

/// The reply to a value that is on the recording.
pub const OK: &str = "ok\n";

/// Takes the lines of a client until it hangs up.
///
/// # Errors
/// If the connection fails, or a line is far too long.
pub fn take(recorder: &Recorder, client: &Socket) -> io::Result<()> {
    let mut replies = client.try_clone()?;
    let mut lines = BufReader::new(client.try_clone()?);
    let mut line = Vec::new();
    loop {
        line.clear();
        // The longest value, its newline, and one byte that shows a longer line.
        let most = MOST_MARK_BYTES as u64 + 2;
        if lines.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        let value = line.strip_suffix(b"\n").unwrap_or(&line);
        let marked = match check_mark(value) {
            Ok(value) => recorder.mark(value).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match marked {
            Ok(()) => replies.write_all(OK.as_bytes())?,
            Err(cause) => replies.write_all(format!("error: {cause}\n").as_bytes())?,
        }
        if !whole && line.len() as u64 == most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tape::{Recording, What};
    use super::*;
    use std::fs::File;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    /// Sends text at once; gives the replies, and the marks of the recording.
    fn exchange(text: &[u8]) -> (String, Vec<String>) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("run.tape");
        let recorder = Recorder::create(&path, 4096, false).expect("a recording");
        let (client, server) = UnixStream::pair().expect("a connection");
        let replies = std::thread::scope(|scope| {
            let recorder = &recorder;
            scope.spawn(move || {
                let server = Socket::Unix(server);
                let _ = take(recorder, &server);
                server.hang_up();
            });
            // It may hang up before it has read all.
            let _ = (&client).write_all(text);
            let _ = client.shutdown(Shutdown::Write);
            let mut replies = Vec::new();
            let _ = (&client).read_to_end(&mut replies);
            String::from_utf8(replies).expect("text")
        });
        recorder.finish().expect("it ends");
        let mut recording = Recording::open(File::open(&path).expect("a file")).expect("whole");
        let mut marks = Vec::new();
        while let Some(event) = recording.next_event().expect("it reads") {
            assert!(matches!(event.what, What::Mark { .. }), "{event:?}");
            marks.push(recording.mark().to_owned());
        }
        (replies, marks)
    }

    #[test]
    fn each_line_gets_its_reply() {
        let (replies, marks) = exchange(b"1\n2\n\n3\xff\n4");
        let replies: Vec<&str> = replies.lines().collect();
        assert_eq!((replies.len(), replies[0], replies[1], replies[4]), (5, "ok", "ok", "ok"));
        assert!(replies[2].contains("empty") && replies[3].contains("UTF-8"), "{replies:?}");
        assert_eq!(marks, ["1", "2", "4"]);
    }

    #[test]
    fn the_longest_line_is_taken_and_a_longer_one_ends_the_connection() {
        let longest = [&[b'x'; MOST_MARK_BYTES][..], b"\n2\n"].concat();
        assert_eq!(exchange(&longest).1.len(), 2);
        let longer = [&[b'x'; 3 * MOST_MARK_BYTES][..], b"\n2\n"].concat();
        let (replies, marks) = exchange(&longer);
        assert!(replies.starts_with("error: ") && replies.lines().count() == 1, "{replies}");
        assert_eq!(marks, Vec::<String>::new());
    }
}
