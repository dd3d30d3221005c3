//! Collects the output of a running program and streams its lines.

use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_api::progress::ProgressSink;
use muster_api::system::command::OutputStream;
use muster_contract::shell::ShellRunOutput;
use serde_json::json;

/// Bytes of each stream that are kept for the reply.
const MAX_KEPT_BYTES: usize = 64 * 1024;
/// Largest size of each stream in the reply, as JSON, in bytes.
const MAX_KEPT_JSON_BYTES: usize = 160 * 1024;
/// Longest line in one progress event, in bytes. Longer lines are split.
const MAX_LINE_BYTES: usize = 4 * 1024;

/// Output of a program that is still running.
#[derive(Debug)]
pub(crate) struct LiveOutputBuffer {
    sink: ProgressSink,
    streams: Mutex<[StreamBuffer; 2]>,
}

#[derive(Debug, Default)]
struct StreamBuffer {
    bytes: Vec<u8>,
    truncated: bool,
    lines: LineSplitter,
}

/// Splits a stream into lines.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter(Vec<u8>);

impl LiveOutputBuffer {
    /// An empty buffer that sends lines to the sink.
    pub(crate) fn new(sink: ProgressSink) -> Self {
        Self { sink, streams: Mutex::default() }
    }

    /// Appends output bytes.
    pub(crate) fn append_bytes(&self, stream: OutputStream, bytes: &[u8]) {
        let mut streams = self.lock_streams();
        let [stdout, stderr] = &mut *streams;
        let buffer = match stream {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
        };
        let length = MAX_KEPT_BYTES.saturating_sub(buffer.bytes.len()).min(bytes.len());
        buffer.bytes.extend_from_slice(bytes.get(..length).unwrap_or_default());
        buffer.truncated |= length < bytes.len();
        if self.sink.is_wanted() {
            let emit = |line: String| emit_line(&self.sink, stream, &line);
            buffer.lines.push_bytes(bytes, emit);
        }
    }

    /// Flushes the last line after the program has exited. Returns the outputs of the action that are known here.
    pub(crate) fn finish_streams(&self) -> ShellRunOutput {
        let mut streams = self.lock_streams();
        let [stdout, stderr] = &mut *streams;
        for (stream, buffer) in
            [(OutputStream::Stdout, &mut *stdout), (OutputStream::Stderr, &mut *stderr)]
        {
            buffer.lines.flush_line(|line| emit_line(&self.sink, stream, &line));
        }
        let ((out, out_truncated), (err, err_truncated)) =
            (truncate_text(&stdout.bytes), truncate_text(&stderr.bytes));
        ShellRunOutput {
            exitcode: None,
            stdout: out,
            stderr: err,
            truncated: stdout.truncated || stderr.truncated || out_truncated || err_truncated,
        }
    }

    fn lock_streams(&self) -> MutexGuard<'_, [StreamBuffer; 2]> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends one line as a progress event.
pub(crate) fn emit_line(sink: &ProgressSink, stream: OutputStream, line: &str) {
    sink.emit_event(json!({"stream": stream.as_str(), "line": line}));
}

/// Converts the bytes to text within the size limit of a reply. Returns it with whether it was truncated.
fn truncate_text(bytes: &[u8]) -> (String, bool) {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    let mut truncated = false;
    // Control characters take six bytes in JSON, so halving a few times is enough.
    while serde_json::to_vec(&text).map_or(0, |json| json.len()) > MAX_KEPT_JSON_BYTES {
        let half = text.floor_char_boundary(text.len() / 2);
        text.truncate(half);
        truncated = true;
    }
    (text, truncated)
}

impl LineSplitter {
    /// Appends bytes and emits each line that is complete or has reached the maximum length.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8], mut emit: impl FnMut(String)) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            for part in line.chunks(MAX_LINE_BYTES) {
                self.0.extend_from_slice(part);
                if self.0.ends_with(b"\n") || self.0.len() >= MAX_LINE_BYTES {
                    self.flush_line(&mut emit);
                }
            }
        }
    }

    /// Emits the remaining partial line.
    pub(crate) fn flush_line(&mut self, mut emit: impl FnMut(String)) {
        if self.0.is_empty() {
            return;
        }
        let line = std::mem::take(&mut self.0);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        emit(String::from_utf8_lossy(line).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use muster_api::progress::progress_channel;
    use muster_api::system::command::OutputStream;
    use serde_json::json;

    use super::{
        LineSplitter, LiveOutputBuffer, MAX_KEPT_BYTES, MAX_KEPT_JSON_BYTES, MAX_LINE_BYTES,
    };

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut told) = (LineSplitter::default(), Vec::new());
        for piece in pieces {
            lines.push_bytes(piece, |line| told.push(line));
        }
        lines.flush_line(|line| told.push(line));
        told
    }

    #[test]
    fn lines_are_complete_for_any_chunks() {
        assert_eq!(lines(&[b"a\nb", b"c\n", b"\n", b"end"]), ["a", "bc", "", "end"]);
        assert_eq!(lines(&[b"a\xff\n"]), ["a\u{fffd}"]);
        let long = vec![b'x'; MAX_LINE_BYTES * 2 + 5];
        let told = lines(&[&long]);
        assert_eq!(told.concat().len(), long.len());
        assert!(told.iter().all(|line| line.len() < 2 * MAX_LINE_BYTES));
    }

    #[tokio::test]
    async fn output_is_streamed_by_line_and_kept() {
        let (sink, source) = progress_channel();
        let output = LiveOutputBuffer::new(sink);
        output.append_bytes(OutputStream::Stderr, b"oh\nno");
        output.append_bytes(OutputStream::Stdout, b"fine\n");
        let kept = json!(output.finish_streams());
        assert_eq!(
            json!(kept),
            json!({"stdout": "fine\n", "stderr": "oh\nno", "truncated": false})
        );
        source.close();
        let told = source.take_events(10_000).await.unwrap();
        let line = |stream: &str, line: &str| json!({"stream": stream, "line": line});
        assert_eq!(told, [line("stderr", "oh"), line("stdout", "fine"), line("stderr", "no")]);
    }

    #[test]
    fn excess_output_is_truncated_and_marked() {
        let output = LiveOutputBuffer::new(muster_api::progress::ProgressSink::default());
        output.append_bytes(OutputStream::Stdout, &vec![1; MAX_KEPT_BYTES + 1]);
        let kept = json!(output.finish_streams());
        assert_eq!(kept["truncated"], json!(true));
        assert!(serde_json::to_vec(&kept["stdout"]).unwrap().len() <= MAX_KEPT_JSON_BYTES);
    }
}
