//! As much of HTTP as a question of Prometheus takes: one request, one answer, the connection ends.

use super::{Command, CommandSender, MOST_BYTES};
use crate::status::{Report, metrics};
use std::io::{BufRead, Read as _, Write};

/// Lines of a request that are read.
const MOST_LINES: usize = 100;

/// Reads a request and answers it.
pub(super) fn answer(
    input: &mut impl BufRead,
    output: &mut impl Write,
    commands: &CommandSender,
) -> Option<()> {
    let first = line(input)?;
    for _ in 0..MOST_LINES {
        if line(input)?.is_empty() {
            break;
        }
    }
    let (status, body) = match path(&first) {
        Some("/metrics") => match report(commands) {
            Some(report) => ("200 OK", metrics::text(&report)),
            None => ("503 Service Unavailable", "the volume has come to its end\n".to_owned()),
        },
        Some(_) => ("404 Not Found", "there is nothing but /metrics\n".to_owned()),
        None => ("400 Bad Request", "ask for GET /metrics\n".to_owned()),
    };
    let kind = if status.starts_with("200") { metrics::CONTENT_TYPE } else { "text/plain" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    output.write_all(head.as_bytes()).ok()?;
    output.write_all(body.as_bytes()).ok()
}

fn report(commands: &CommandSender) -> Option<Report> {
    let reply = commands.ask(Command::Status)?;
    serde_json::from_value(reply.value().clone()).ok()
}

/// A line without its end; `None` at the end of the input.
fn line(input: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    if input.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line).ok()? == 0 {
        return None;
    }
    Some(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// The path that a request line asks for.
fn path(line: &str) -> Option<&str> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let sound = method == "GET" && version.starts_with("HTTP/1.") && words.next().is_none();
    sound.then(|| target.split('?').next().unwrap_or(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_of_http_have_a_path() {
        assert_eq!(path("GET /metrics HTTP/1.1"), Some("/metrics"));
        assert_eq!(path("GET /metrics?x=1 HTTP/1.0"), Some("/metrics"));
        for wrong in ["", "GET", "GET /metrics", "POST /metrics HTTP/1.1", "GET / HTTP/2 x"] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
    }
}
