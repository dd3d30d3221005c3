//! Reads a log file line by line. Memory use is bounded by the maximum line length.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use muster_audit::ChainLink;
use muster_secret::files::{FileAccessError, file_error};
use muster_wire::limits::MAX_AUDIT_LINE_BYTES;

/// A part of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFilePart<'a> {
    /// A line without its line end. Lines that are too long are truncated.
    Line(&'a [u8]),
    /// Bytes after the last line end.
    Torn(&'a [u8]),
}

/// Calls a function for each part of a file.
pub(super) fn for_each_part(
    path: &Path,
    mut handle_part: impl FnMut(LogFilePart<'_>),
) -> Result<(), FileAccessError> {
    let failed = file_error("read", path);
    let mut input = BufReader::new(File::open(path).map_err(&failed)?);
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

/// Sequence number of a file's first line, if it belongs to a chain.
pub(super) fn first_number(path: &Path) -> Result<Option<u64>, FileAccessError> {
    let failed = file_error("read", path);
    let mut line = Vec::new();
    let file = File::open(path).map_err(&failed)?;
    BufReader::new(file.take(MAX_AUDIT_LINE_BYTES as u64))
        .read_until(b'\n', &mut line)
        .map_err(&failed)?;
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    Ok(ChainLink::parse_line(line).map(|link| link.seq))
}
