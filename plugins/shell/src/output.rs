//! Output as it comes: what is kept of it, and the lines in it that are told at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_api::progress::Sink;
use muster_api::system::command::Stream;
use serde_json::{Map, Value, json};

/// Bytes that are kept of each stream for the answer.
const KEPT: usize = 64 * 1024;
/// Bytes that each stream may have in the answer, as JSON.
const KEPT_JSON: usize = 160 * 1024;
/// Longest line that is told in one event; a longer one is told in pieces.
const LINE: usize = 4 * 1024;

/// Output of a program that is still running.
#[derive(Debug)]
pub(crate) struct Output {
    sink: Sink,
    streams: Mutex<[Kept; 2]>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    truncated: bool,
    lines: Lines,
}

/// Cuts a stream into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Output {
    /// Nothing yet; lines go into the sink.
    pub(crate) fn new(sink: Sink) -> Self {
        Self {
            sink,
            streams: Mutex::default(),
        }
    }

    /// Something was printed.
    pub(crate) fn hear(&self, stream: Stream, bytes: &[u8]) {
        let mut streams = self.lock();
        let [stdout, stderr] = &mut *streams;
        let kept = match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        };
        let room = KEPT.saturating_sub(kept.bytes.len()).min(bytes.len());
        kept.bytes
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
        kept.truncated |= room < bytes.len();
        if self.sink.is_wanted() {
            let tell = |line: String| tell(&self.sink, stream, &line);
            kept.lines.add(bytes, tell);
        }
    }

    /// The program has ended: the last line is told, too. Answers the outputs of the action as far as they are known here.
    pub(crate) fn end(&self) -> Map<String, Value> {
        let mut streams = self.lock();
        let [stdout, stderr] = &mut *streams;
        for (stream, kept) in [
            (Stream::Stdout, &mut *stdout),
            (Stream::Stderr, &mut *stderr),
        ] {
            kept.lines.end(|line| tell(&self.sink, stream, &line));
        }
        let ((out, out_cut), (err, err_cut)) = (text(&stdout.bytes), text(&stderr.bytes));
        let truncated = stdout.truncated || stderr.truncated || out_cut || err_cut;
        let outputs = [
            ("stdout", Value::from(out)),
            ("stderr", Value::from(err)),
            ("truncated", Value::from(truncated)),
        ];
        outputs
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, [Kept; 2]> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of one line.
pub(crate) fn tell(sink: &Sink, stream: Stream, line: &str) {
    sink.emit(json!({"stream": stream.word(), "line": line}));
}

/// The bytes as text, as much as an answer has room for; and whether that is less than all.
fn text(bytes: &[u8]) -> (String, bool) {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    let mut cut = false;
    // Control characters grow sixfold in JSON; a few halves are enough.
    while serde_json::to_vec(&text).map_or(0, |json| json.len()) > KEPT_JSON {
        let half = text.floor_char_boundary(text.len() / 2);
        text.truncate(half);
        cut = true;
    }
    (text, cut)
}

impl Lines {
    /// Adds bytes, and hands out each line that is complete, or long enough.
    pub(crate) fn add(&mut self, bytes: &[u8], mut tell: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            for part in piece.chunks(LINE) {
                self.0.extend_from_slice(part);
                if self.0.ends_with(b"\n") || self.0.len() >= LINE {
                    self.end(&mut tell);
                }
            }
        }
    }

    /// Hands out what is left.
    pub(crate) fn end(&mut self, mut tell: impl FnMut(String)) {
        if self.0.is_empty() {
            return;
        }
        let line = std::mem::take(&mut self.0);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        tell(String::from_utf8_lossy(line).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use muster_api::progress::channel;
    use muster_api::system::command::Stream;
    use serde_json::json;

    use super::{KEPT, KEPT_JSON, LINE, Lines, Output};

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut told) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.add(piece, |line| told.push(line));
        }
        lines.end(|line| told.push(line));
        told
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        assert_eq!(
            lines(&[b"a\nb", b"c\n", b"\n", b"end"]),
            ["a", "bc", "", "end"]
        );
        assert_eq!(lines(&[b"a\xff\n"]), ["a\u{fffd}"]);
        let long = vec![b'x'; LINE * 2 + 5];
        let told = lines(&[&long]);
        assert_eq!(told.concat().len(), long.len());
        assert!(told.iter().all(|line| line.len() < 2 * LINE));
    }

    #[tokio::test]
    async fn what_is_told_and_what_is_kept() {
        let (sink, source) = channel();
        let output = Output::new(sink);
        output.hear(Stream::Stderr, b"oh\nno");
        output.hear(Stream::Stdout, b"fine\n");
        let kept = output.end();
        assert_eq!(
            json!(kept),
            json!({"stdout": "fine\n", "stderr": "oh\nno", "truncated": false})
        );
        source.close();
        let told = source.take(10_000).await.unwrap();
        let line = |stream: &str, line: &str| json!({"stream": stream, "line": line});
        assert_eq!(
            told,
            [
                line("stderr", "oh"),
                line("stdout", "fine"),
                line("stderr", "no")
            ]
        );
    }

    #[test]
    fn too_much_is_cut_and_said_so() {
        let output = Output::new(muster_api::progress::Sink::default());
        output.hear(Stream::Stdout, &vec![1; KEPT + 1]);
        let kept = output.end();
        assert_eq!(kept["truncated"], json!(true));
        assert!(serde_json::to_vec(&kept["stdout"]).unwrap().len() <= KEPT_JSON);
    }
}
