//! Reads a log file line by line, also one that logrotate has compressed. Memory use is bounded by the maximum line length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Stdio};

use muster_files::files::{FileAccessError, file_error};
use muster_wire::audit::ChainLink;
use muster_wire::limits::MAX_AUDIT_LINE_BYTES;

/// The first bytes of a compressed file. A log begins with `{`.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFilePart<'a> {
    /// A line without its line end. Lines that are too long are truncated.
    Line(&'a [u8]),
    /// Bytes after the last line end.
    Torn(&'a [u8]),
}

pub(super) fn for_each_part(
    path: &Path,
    mut handle_part: impl FnMut(LogFilePart<'_>),
) -> Result<(), FileAccessError> {
    let failed = file_error("read", path);
    let mut input = open_log(path).map_err(&failed)?;
    let mut line = Vec::new();
    loop {
        line.clear();
        let max_bytes = MAX_AUDIT_LINE_BYTES as u64 + 1;
        (&mut input).take(max_bytes).read_until(b'\n', &mut line).map_err(&failed)?;
        match line.strip_suffix(b"\n") {
            Some(complete_line) => handle_part(LogFilePart::Line(complete_line)),
            None if line.is_empty() => return Ok(()),
            None if line.len() > MAX_AUDIT_LINE_BYTES => {
                handle_part(LogFilePart::Line(&line));
                input.skip_until(b'\n').map_err(&failed)?;
            }
            None => handle_part(LogFilePart::Torn(&line)),
        }
    }
}

/// Opens a log, and decompresses it if it is compressed, whatever its name. The content of a compressed file is untrusted too, and read by line.
fn open_log(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = File::open(path)?;
    let mut magic = Vec::new();
    (&mut file).take(GZIP_MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.rewind()?;
    if magic == GZIP_MAGIC {
        return Ok(Box::new(BufReader::new(GzipReader::new(file)?)));
    }
    Ok(Box::new(BufReader::new(file)))
}

/// The decompressed content of a file, by the program with which logrotate compresses.
struct GzipReader {
    process: Child,
}

impl GzipReader {
    #[expect(clippy::disallowed_types, reason = "runs gzip")]
    fn new(file: File) -> io::Result<Self> {
        let process = std::process::Command::new("gzip")
            .arg("-dc")
            .stdin(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("cannot run gzip to decompress it: {error}"))
            })?;
        Ok(Self { process })
    }
}

impl io::Read for GzipReader {
    /// At the end, fails if the compressed data is damaged or incomplete.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match &mut self.process.stdout {
            Some(output) => output.read(buffer)?,
            None => 0,
        };
        if length == 0 && !buffer.is_empty() && !self.process.wait()?.success() {
            let problem = "the compressed data is damaged or incomplete";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(length)
    }
}

impl Drop for GzipReader {
    fn drop(&mut self) {
        // It may not have been read to its end. Both fail only if the process is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sequence number of a file's first line, if it belongs to a chain.
pub(super) fn first_number(path: &Path) -> Result<Option<u64>, FileAccessError> {
    let failed = file_error("read", path);
    let mut line = Vec::new();
    let file = open_log(path).map_err(&failed)?;
    file.take(MAX_AUDIT_LINE_BYTES as u64).read_until(b'\n', &mut line).map_err(&failed)?;
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    Ok(ChainLink::parse_line(line).map(|link| link.seq))
}
