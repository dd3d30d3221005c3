//! The files of the audit log: creation, recovery after a restart, and rotation. `log` defines their content.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use muster_files::replace_file;
use muster_wire::audit::{AuditAnchor, ChainPosition, HeadRecord};
use muster_wire::limits;
use nix::unistd::{AccessFlags, Group};

use super::options::AuditOptions;
use crate::config::AuditConfig;
use crate::ground::files;

/// How many bytes at the end of a file are read first to find its last line.
const INITIAL_TAIL_BYTES: u64 = 64 * 1024;
/// Maximum size of the head file, which stores the last checkpoint, in bytes.
const MAX_HEAD_BYTES: u64 = 8192;

/// A new file gets the configured mode and group; an existing file keeps its own.
pub(super) fn open_log(path: &Path, options: &AuditOptions) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o750).create(directory)?;
    }
    let mut open_options = OpenOptions::new();
    open_options.append(true).mode(0o600);
    match open_options.clone().create_new(true).open(path) {
        Ok(file) => {
            if let Some(group) = &options.settings.group {
                set_group(&file, group)?;
            }
            // Set the mode explicitly, because the umask applies at creation.
            file.set_permissions(Permissions::from_mode(options.settings.mode))?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_options.open(path),
        Err(error) => Err(error),
    }
}

fn set_group(file: &File, group: &str) -> io::Result<()> {
    Ok(nix::unistd::fchown(file, None, Some(find_group(group)?.gid))?)
}

fn find_group(name: &str) -> io::Result<Group> {
    let unknown = || io::Error::other(format!("unknown group `{name}`"));
    Group::from_name(name)?.ok_or_else(unknown)
}

/// Checks that [`open_log`] can open the log. Creates nothing.
pub(super) fn check_log(path: &Path, settings: &AuditConfig) -> io::Result<()> {
    if let Some(group) = &settings.group {
        find_group(group)?;
    }
    for existing in path.ancestors() {
        match existing.metadata() {
            Ok(found) if found.is_dir() == (existing == path) => {
                let is_log = existing == path;
                let kind =
                    if is_log { io::ErrorKind::IsADirectory } else { io::ErrorKind::NotADirectory };
                return Err(kind.into());
            }
            Ok(_) => return Ok(nix::unistd::access(existing, AccessFlags::W_OK)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether both handles refer to the same file, under any name.
pub(super) fn is_same_file(a: &File, b: &File) -> io::Result<bool> {
    let (a, b) = (a.metadata()?, b.metadata()?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[derive(Debug, Default)]
pub(super) struct AuditLogTail {
    /// The chain position; `None` without a complete chained line.
    pub(super) position: Option<ChainPosition>,
    /// The bytes after the last newline.
    pub(super) torn: Vec<u8>,
    /// Zeros at the end of the file, after `torn`.
    pub(super) excess_zeros: usize,
    /// The file has complete lines, and the last one is not part of a chain.
    pub(super) foreign: bool,
}

impl AuditLogTail {
    pub(super) fn read_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let file_length = file.metadata()?.len();
        let length = length_without_zeros(&file, file_length)?;
        let zeros = usize::try_from(file_length - length).unwrap_or(usize::MAX);
        let max_bytes = 2 * limits::MAX_AUDIT_LINE_BYTES as u64;
        let mut tail_bytes = INITIAL_TAIL_BYTES;
        loop {
            let from = length.saturating_sub(tail_bytes);
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            (&mut file).take(length - from).read_to_end(&mut bytes)?;
            match Self::parse_tail(bytes, from == 0) {
                Some(tail) => return Ok(tail.with_zeros(zeros)),
                None if tail_bytes >= max_bytes => {
                    return Ok(Self { foreign: true, ..Self::default() });
                }
                None => tail_bytes = tail_bytes.saturating_mul(8),
            }
        }
    }

    /// Adds the zeros at the end of the file to its torn line. More than a line can have are left out.
    fn with_zeros(mut self, zeros: usize) -> Self {
        let room = limits::MAX_AUDIT_LINE_BYTES.saturating_sub(self.torn.len());
        self.torn.resize(self.torn.len() + zeros.min(room), 0);
        self.excess_zeros = zeros.saturating_sub(room);
        self
    }

    /// Whether the file has only zeros: no line of it has reached the disk.
    pub(super) fn has_only_zeros(&self) -> bool {
        let has_lines = self.position.is_some() || self.foreign;
        !has_lines && !self.torn.is_empty() && self.torn.iter().all(|byte| *byte == 0)
    }

    /// Parses the last bytes of a file; `None` if the last line begins before them.
    fn parse_tail(mut bytes: Vec<u8>, is_whole_file: bool) -> Option<Self> {
        let is_newline = |byte: &u8| *byte == b'\n';
        let Some(last) = bytes.iter().rposition(is_newline) else {
            return is_whole_file.then_some(Self { torn: bytes, ..Self::default() });
        };
        let torn = bytes.split_off(last + 1);
        bytes.pop();
        let begin = bytes.iter().rposition(is_newline).map(|end| end + 1);
        let begin = begin.or(is_whole_file.then_some(0))?;
        let position = bytes.get(begin..).and_then(ChainPosition::after_line);
        Some(Self { foreign: position.is_none(), position, torn, excess_zeros: 0 })
    }
}

/// The length of a file without the NUL bytes at its end. A power cut leaves them where bytes were written and not synced, on a file
/// system that allocates blocks late.
fn length_without_zeros(mut file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let from = end.saturating_sub(INITIAL_TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(end - from).read_to_end(&mut bytes)?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
            return Ok(from + last as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// The name of an older file: `audit.log.3`.
pub(super) fn numbered_path(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Renames the log to number 1 and increments the number of each older file; file number `keep` is overwritten.
pub(super) fn rotate_files(path: &Path, keep: u32) -> io::Result<()> {
    for number in (1..keep).rev() {
        match fs::rename(numbered_path(path, number), numbered_path(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, numbered_path(path, 1))
}

/// The last checkpoint that this daemon stored; `None` if there is none.
pub(super) fn read_head(head: &Path) -> Option<AuditAnchor> {
    let problem = match files::allow_missing(files::read_text(head, MAX_HEAD_BYTES)) {
        Ok(None) => return None,
        Ok(Some(text)) => match text.parse::<HeadRecord>() {
            Ok(record) => return Some(record.anchor),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    // A crash may leave the head file empty. The log itself still exists.
    tracing::warn!(problem, path = %head.display(), "cannot read the stored end of the audit log");
    None
}

/// Stores a checkpoint of the log at this path in a separate file.
pub(super) fn write_head(head: &Path, anchor: AuditAnchor, log: &Path) -> io::Result<()> {
    let log = fs::canonicalize(log)?;
    // Omit a path that is not UTF-8: then only `--anchor` can name the record.
    let log = log.to_str().map(str::to_owned);
    replace_file(head, HeadRecord { anchor, log }.to_string().as_bytes(), 0o600)
}
