//! The chained log on disk: appends records in groups, signs checkpoints, rotates files. Single owner, no threads.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use muster_base::{format_rfc3339, unix_millis_now};
use muster_wire::audit::{AuditAnchor, AuditGap, AuditHeader, ChainPosition, NotAnObject};
use serde::Serialize;

use super::files::{self, AuditLogTail};
use super::options::AuditOptions;
use crate::ground::files::allow_missing;

#[derive(Debug)]
pub(super) struct ChainedLog {
    options: AuditOptions,
    account: String,
    file: File,
    /// The file system was read-only when the file was opened. The log is opened again before each write until it is writable.
    is_read_only: bool,
    /// Whether it is a regular file. A pipe or device cannot be read back, truncated or moved.
    regular: bool,
    size: u64,
    /// The size at which the next rotation is attempted.
    rotate_at: u64,
    position: ChainPosition,
    last: Option<AuditAnchor>,
    pending: PendingPreamble,
    /// The number of lines since the last checkpoint, and when the first of them was written.
    unsigned: Option<(u64, Instant)>,
}

/// What must be written before the next record.
#[derive(Debug, Default)]
struct PendingPreamble {
    /// The remains of a torn line, which must be terminated.
    torn: Vec<u8>,
    header: bool,
    /// The number of a missing line.
    missing: Option<u64>,
}

/// A group of records was written only in part.
#[derive(Debug)]
pub(super) struct ShortWrite {
    /// The number of records that were written.
    pub(super) written: usize,
    pub(super) error: io::Error,
}

/// Lines that are written together.
#[derive(Debug)]
struct LineGroup {
    bytes: Vec<u8>,
    position: ChainPosition,
    /// The end of each line, and the chain position after it.
    ends: Vec<(usize, ChainPosition)>,
}

impl LineGroup {
    fn add_line(
        &mut self,
        line: impl FnOnce(ChainPosition, &mut Vec<u8>) -> Result<ChainPosition, NotAnObject>,
    ) -> io::Result<()> {
        self.position = line(self.position, &mut self.bytes).map_err(io::Error::other)?;
        self.ends.push((self.bytes.len(), self.position));
        Ok(())
    }
}

impl ChainedLog {
    /// Continues the log from its end, in any state.
    pub(super) fn open(options: AuditOptions) -> io::Result<Self> {
        let (mut file, is_read_only) = match files::open_log(&options.path, &options) {
            // The daemon replies to reads, and refuses changes.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                (File::open(&options.path)?, true)
            }
            opened => (opened?, false),
        };
        let regular = file.metadata()?.is_file();
        let mut tail =
            if regular { AuditLogTail::read_file(&options.path)? } else { AuditLogTail::default() };
        if tail.foreign && !is_read_only {
            tracing::warn!(path = %options.path.display(), "the file is not a chained audit log; it is renamed");
            files::rotate_files(&options.path, options.settings.keep)?;
            (file, tail) = (files::open_log(&options.path, &options)?, AuditLogTail::default());
        }
        if !is_read_only {
            remove_zeros(&file, &mut tail, &options)?;
        }
        let stored = options.head.as_deref().and_then(files::read_head);
        let position = match tail.position {
            Some(position) => position,
            None => Self::position_without_file(&options, stored, regular)?,
        };
        let missing = stored.map(|anchor| anchor.seq).filter(|seq| *seq >= position.next);
        if let Some(written) = missing {
            tracing::error!(written, found = position.next, path = %options.path.display(), "lines of the audit log are missing");
        }
        let size = file.metadata()?.len();
        let mut log = Self {
            account: options.account.clone(),
            rotate_at: options.settings.max_bytes,
            options,
            file,
            is_read_only,
            regular,
            size,
            position,
            last: None,
            pending: PendingPreamble { torn: tail.torn, header: true, missing },
            unsigned: None,
        };
        if is_read_only {
            tracing::error!(path = %log.options.path.display(), "cannot write the audit log: the file system is read-only");
            return Ok(log);
        }
        // A write that fails now is retried with the first record, which reports the failure to its caller.
        if let Err(short) = log.write_records(&[]) {
            tracing::error!(error = %short.error, path = %log.options.path.display(), "cannot write the audit log");
        }
        Ok(log)
    }

    /// The position for a new file: after the newest known line.
    fn position_without_file(
        options: &AuditOptions,
        stored: Option<AuditAnchor>,
        regular: bool,
    ) -> io::Result<ChainPosition> {
        if !regular {
            return Ok(ChainPosition::START);
        }
        let older = AuditLogTail::read_file(&files::numbered_path(&options.path, 1));
        let older = allow_missing(older)?.and_then(|tail| tail.position);
        let stored = stored
            .map(|anchor| ChainPosition { next: anchor.seq.saturating_add(1), prev: anchor.hash });
        let known = older.into_iter().chain(stored);
        Ok(known.max_by_key(|position| position.next).unwrap_or(ChainPosition::START))
    }

    /// The number of the last line and its hash.
    pub(super) fn last_anchor(&self) -> Option<AuditAnchor> {
        self.last
    }

    /// The account token for later headers.
    pub(super) fn set_account(&mut self, token: String) {
        self.account = token;
    }

    /// Appends records with one write, and rotates the file if it is full.
    pub(super) fn append(&mut self, records: &[Vec<u8>]) -> Result<(), ShortWrite> {
        self.write_records(records)?;
        if self.options.settings.max_bytes > 0 && self.regular && self.size >= self.rotate_at {
            self.rotate();
        }
        Ok(())
    }

    fn write_records(&mut self, records: &[Vec<u8>]) -> Result<(), ShortWrite> {
        let to_short_write = |error| ShortWrite { written: 0, error };
        let mut group = self.start_group().map_err(to_short_write)?;
        self.add_preamble(&mut group).map_err(to_short_write)?;
        let preamble_lines = group.ends.len();
        for record in records {
            let record = record.strip_suffix(b"\n").unwrap_or(record);
            let added = group.add_line(|position, out| position.append_record(record, out));
            added.map_err(to_short_write)?;
        }
        self.write_group(&group).map_err(|(lines, error)| ShortWrite {
            written: lines.saturating_sub(preamble_lines),
            error,
        })
    }

    /// Signs the lines since the last checkpoint.
    pub(super) fn write_checkpoint(&mut self) -> io::Result<()> {
        if self.unsigned.is_none() {
            return Ok(());
        }
        let mut group = self.start_group()?;
        self.add_preamble(&mut group)?;
        let (time, signer) = (format_rfc3339(unix_millis_now()), &self.options.signer);
        group.add_line(|position, out| {
            Ok(position.append_checkpoint(&time, signer.identity(), signer.key_pair(), out))
        })?;
        self.write_group(&group).map_err(|(_, error)| error)?;
        self.unsigned = None;
        if let (Some(head), Some(last)) = (&self.options.head, self.last) {
            // Sync the log first: a stored checkpoint of lines that a power cut removed would look like tampering.
            let stored =
                self.sync().and_then(|()| files::write_head(head, last, &self.options.path));
            if let Err(error) = stored {
                tracing::warn!(%error, path = %head.display(), "cannot store the last checkpoint of the audit log");
            }
        }
        Ok(())
    }

    /// Time until the next checkpoint, if there are unsigned lines.
    pub(super) fn checkpoint_due(&self, now: Instant) -> Option<Duration> {
        let (lines, since) = self.unsigned?;
        if lines >= self.options.settings.checkpoint_lines {
            return Some(Duration::ZERO);
        }
        Some((since + self.options.settings.checkpoint_every).saturating_duration_since(now))
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Reopens the path after the file was moved away. Keeps the open file if that fails.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let file = files::open_log(&self.options.path, &self.options)?;
        if files::is_same_file(&file, &self.file)? {
            return Ok(());
        }
        self.write_checkpoint()?;
        self.replace_file(file)
    }

    /// A failure is logged and retried later; no records are lost.
    fn rotate(&mut self) {
        // Set first, so that a failed rotation is retried only after another `max_bytes`.
        self.rotate_at = self.size.saturating_add(self.options.settings.max_bytes);
        let rotated = self.write_checkpoint().and_then(|()| {
            self.sync()?;
            let path = &self.options.path;
            let new_path = path.with_extension("new");
            // Create the new file before the old one is moved.
            let file = files::open_log(&new_path, &self.options)?;
            files::rotate_files(path, self.options.settings.keep)?;
            std::fs::rename(&new_path, path)?;
            self.replace_file(file)
        });
        if let Err(error) = rotated {
            tracing::error!(%error, path = %self.options.path.display(), "cannot rotate the audit log");
        }
    }

    fn replace_file(&mut self, file: File) -> io::Result<()> {
        let metadata = file.metadata()?;
        (self.regular, self.size) = (metadata.is_file(), metadata.len());
        self.file = file;
        self.pending = PendingPreamble { header: true, ..PendingPreamble::default() };
        let result = self.write_records(&[]).map_err(|short| short.error);
        // Allow at least twice the header size, or rotation would repeat without end.
        self.rotate_at = self.options.settings.max_bytes.max(self.size.saturating_mul(2));
        result
    }

    fn start_group(&mut self) -> io::Result<LineGroup> {
        if self.is_read_only {
            files::open_log(&self.options.path, &self.options)?;
            *self =
                Self::open(AuditOptions { account: self.account.clone(), ..self.options.clone() })?;
        }
        Ok(LineGroup { bytes: Vec::new(), position: self.position, ends: Vec::new() })
    }

    /// Adds what must precede the records: the end of a torn line, the header, and the missing line numbers.
    fn add_preamble(&self, group: &mut LineGroup) -> io::Result<()> {
        let time = || format_rfc3339(unix_millis_now());
        if !self.pending.torn.is_empty() {
            group.bytes.push(b'\n');
            add_mark(group, &AuditGap::torn_line(time(), &self.pending.torn))?;
        }
        if self.pending.header {
            let signer = &self.options.signer;
            let now = unix_millis_now();
            let header = AuditHeader::new(
                now,
                format_rfc3339(now),
                signer.identity().clone(),
                signer.public_key(),
                signer.token().to_string(),
                self.account.clone(),
            );
            add_mark(group, &header)?;
        }
        if let Some(written) = self.pending.missing {
            add_mark(group, &AuditGap::missing_lines(time(), written))?;
        }
        Ok(())
    }

    /// Normally one write. A partially written line is truncated; if that fails, the next write terminates it.
    fn write_group(&mut self, group: &LineGroup) -> Result<(), (usize, io::Error)> {
        if group.bytes.is_empty() {
            return Ok(());
        }
        let (count, result) = write_bytes(&self.file, &group.bytes);
        let complete = group.ends.iter().take_while(|(end, _)| *end <= count);
        let (lines, last) = complete.fold((0, None), |(lines, _), end| (lines + 1, Some(end)));
        let mut complete_bytes = 0;
        if let Some((end, position)) = last {
            complete_bytes = *end;
            self.position = *position;
            self.last =
                Some(AuditAnchor { seq: position.next.saturating_sub(1), hash: position.prev });
            let (unsigned, since) = self.unsigned.unwrap_or((0, Instant::now()));
            self.unsigned = Some((unsigned + lines as u64, since));
            self.pass_lines(&group.bytes, group.ends.iter().take(lines).map(|(end, _)| *end));
        }
        if result.is_ok() {
            self.pending = PendingPreamble::default();
        } else {
            self.recover_short_write(group, lines, complete_bytes, count);
        }
        self.size += complete_bytes as u64;
        result.map_err(|error| (lines, error))
    }

    /// Passes written lines on to the history.
    fn pass_lines(&self, bytes: &[u8], ends: impl Iterator<Item = usize>) {
        let Some(tap) = &self.options.history else { return };
        let mut begin = 0;
        for end in ends {
            tap.pass_line(bytes.get(begin..end).unwrap_or_default());
            begin = end;
        }
    }

    /// Recovers from a partial write: `complete_bytes` bytes are complete lines, `count` bytes are in the file.
    fn recover_short_write(
        &mut self,
        group: &LineGroup,
        lines: usize,
        complete_bytes: usize,
        count: usize,
    ) {
        // The preamble lines were written in this order.
        let mut lines = lines;
        let mut still_pending = |due: bool| {
            let written = due && lines > 0;
            lines -= usize::from(written);
            due && !written
        };
        if !still_pending(!self.pending.torn.is_empty()) {
            self.pending.torn.clear();
        }
        self.pending.header = still_pending(self.pending.header);
        let missing = self.pending.missing;
        self.pending.missing = missing.filter(|_| still_pending(true));
        let fragment = group.bytes.get(complete_bytes..count).unwrap_or_default();
        if fragment.is_empty() {
            return;
        }
        let length = self.file.metadata().map(|metadata| metadata.len());
        let truncated = length
            .and_then(|length| self.file.set_len(length.saturating_sub(fragment.len() as u64)));
        if !self.regular || truncated.is_err() {
            self.pending.torn = fragment.strip_prefix(b"\n").unwrap_or(fragment).to_vec();
        }
    }
}

/// Removes zeros that a power cut left in place of lines: all of a file that has nothing else, which then begins with a header, and those
/// that make the last line too long. The others are kept and recorded as a torn line.
fn remove_zeros(file: &File, tail: &mut AuditLogTail, options: &AuditOptions) -> io::Result<()> {
    let mut removed = tail.excess_zeros;
    if tail.has_only_zeros() {
        removed += std::mem::take(&mut tail.torn).len();
    }
    if removed > 0 {
        tracing::warn!(bytes = removed, path = %options.path.display(), "zeros after a power cut are removed from the audit log");
        let length = file.metadata()?.len();
        file.set_len(length.saturating_sub(removed as u64))?;
    }
    Ok(())
}

fn add_mark(group: &mut LineGroup, mark: &impl Serialize) -> io::Result<()> {
    group.add_line(|position, out| position.append_mark(mark, out))
}

/// Writes as many bytes as possible; returns their number and the error, if any.
fn write_bytes(mut file: &File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut count = 0;
    loop {
        let rest = bytes.get(count..).unwrap_or_default();
        if rest.is_empty() {
            return (count, Ok(()));
        }
        match file.write(rest) {
            Ok(0) => return (count, Err(io::ErrorKind::WriteZero.into())),
            Ok(written) => count += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (count, Err(error)),
        }
    }
}
