//! The hidden file of this machine into which a file of a node is received, next to the file that it will replace.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use muster_base::encode_hex;
use muster_contract::filecopy::FilecopyInspectOutput;
use muster_files::sync_parent_directory;
use muster_wire::identity::Identity;
use sha2::{Digest as _, Sha256};

use super::local_file::digest_file;

/// Bytes of the digest in the name of the file.
const NAME_BYTES: usize = 12;

/// A file that is being received.
#[derive(Debug)]
pub(super) struct PartFile {
    file: File,
    path: PathBuf,
    target: PathBuf,
    /// Bytes that it has, from the start without gaps.
    pub(super) length: u64,
}

/// What exists at the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TargetState {
    Absent,
    /// It has the content already.
    Same,
    /// It has other content, and this mode.
    Different(u32),
}

impl PartFile {
    /// Opens the file with what an interrupted copy of the same content from the same node has left.
    pub(super) fn open(
        target: &Path,
        node: &Identity,
        remote: &FilecopyInspectOutput,
    ) -> io::Result<Self> {
        let key = format!("{node}\0{}\0{}", remote.path, remote.sha256);
        let digest = Sha256::digest(key);
        let name = encode_hex(digest.get(..NAME_BYTES).unwrap_or_default());
        let path = target.with_file_name(format!(".muster-{name}.part"));
        // The umask applies to the mode of the node's file, as it does to every new file.
        let mode = u32::from_str_radix(&remote.mode, 8).unwrap_or(0o600) & 0o777 | 0o600;
        let options = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(mode);
            options.custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits());
            options
        };
        let file = options().open(&path)?;
        let length = file.metadata()?.size();
        let length = if length > remote.size { 0 } else { length };
        file.set_len(length)?;
        Ok(Self { file, path, target: target.to_owned(), length })
    }

    /// Appends bytes.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Whether the content has this checksum.
    pub(super) fn has_digest(&self, sha256: &str) -> io::Result<bool> {
        Ok(digest_file(&self.file)?.0 == sha256)
    }

    /// Puts the file into the place of the target, with the mode that the target had.
    pub(super) fn replace_target(self, state: &TargetState) -> io::Result<()> {
        if let TargetState::Different(mode) = state {
            self.file.set_permissions(Permissions::from_mode(*mode))?;
        }
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        sync_parent_directory(&self.target)
    }

    /// Removes the file.
    pub(super) fn remove(self) {
        // It is hidden, and the error that led here is reported.
        let _ = fs::remove_file(&self.path);
    }
}

impl TargetState {
    /// Examines the target. Fails if it is something else than a regular file.
    pub(super) fn examine(target: &Path, remote: &FilecopyInspectOutput) -> io::Result<Self> {
        let found = match fs::metadata(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Absent),
            found => found?,
        };
        if !found.is_file() {
            let problem = "it exists and is not a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let is_same =
            found.size() == remote.size && digest_file(&File::open(target)?)?.0 == remote.sha256;
        Ok(if is_same { Self::Same } else { Self::Different(found.mode() & 0o7777) })
    }
}
