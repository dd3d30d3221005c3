//! Copies of the organisation's directory in one encrypted file, and back.
//!
//! The file has the format of age, encrypted with a passphrase. Its content is a gzipped tar archive, so `age -d FILE | tar -xz` reads it without this program.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use age::secrecy::SecretString;
use age::stream::StreamWriter;
use age::{DecryptError, Decryptor, Encryptor, scrypt};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use muster_files::{Zeroizing, files};
use muster_wire::token::Seconds;
use tar::{Archive, Builder, EntryType, Header};

use crate::create::{require_empty, require_protected};
use crate::nats_config::move_paths;
use crate::{
    MAX_FILE_BYTES, Organisation, OrganisationError, OrganisationLayout, OrganisationLock,
};

/// Fewest characters of a passphrase. The file has all keys of the organisation, and can be tried without a limit.
pub const MIN_PASSPHRASE_CHARS: usize = 12;
/// Cost of a passphrase, as in the program age: 2^18, a second and 256 MiB.
const WORK_FACTOR: u8 = 18;
/// Highest cost that is accepted of a file: four seconds and 1 GiB.
const MAX_WORK_FACTOR: u8 = 20;
/// Largest file of the organisation that is saved, in bytes.
const MAX_SAVED_BYTES: usize = 256 * 1024 * 1024;
/// Largest sum of all files of a backup that is read, in bytes.
const MAX_RESTORED_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Most files of a backup that is read.
const MAX_RESTORED_FILES: usize = 1_000_000;
/// Deepest directory that is saved. Symbolic links could form a circle.
const MAX_DEPTH: usize = 16;

/// Bits of a file's mode that are saved.
const PERMISSION_BITS: u32 = 0o777;
/// Permission of others to read a file.
const OTHERS_READ: u64 = 0o004;

/// What a backup contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupSummary {
    /// When it was made, by the clock of its machine.
    pub time: Seconds,
    /// Number of files.
    pub files: usize,
}

/// Why a backup cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupFileError {
    /// The passphrase is too short.
    #[error(
        "the passphrase has fewer than {MIN_PASSPHRASE_CHARS} characters; the backup has all keys of the organisation"
    )]
    ShortPassphrase,
    /// The file was encrypted with another passphrase, or changed.
    #[error("{}: the passphrase is wrong, or the file was changed", .0.display())]
    Passphrase(PathBuf),
    /// The file is none that `rpc org backup` writes.
    #[error("{}: this is no backup of an organisation; `rpc org backup` writes one", .0.display())]
    Format(PathBuf, #[source] Option<io::Error>),
    /// The content ends early, or was changed.
    #[error("{}: the content is damaged; nothing was restored", .0.display())]
    Damaged(PathBuf, #[source] io::Error),
    /// An entry of the archive would be written elsewhere, or is no file.
    #[error("{}: the entry `{entry}` is no file of an organisation; nothing was restored", path.display())]
    Entry {
        /// The backup.
        path: PathBuf,
        /// Name of the entry.
        entry: String,
    },
    /// The content has more or larger files than an organisation can have.
    #[error("{}: the content has more than {MAX_RESTORED_FILES} files or {MAX_RESTORED_BYTES} bytes; nothing was restored", .0.display())]
    TooLarge(PathBuf),
    /// The directories are nested too deeply.
    #[error("{} is more than {MAX_DEPTH} directories deep; does a symbolic link point to a directory above it?", .0.display())]
    Depth(PathBuf),
    /// The content cannot be encrypted or packed.
    #[error("cannot encrypt the backup")]
    Write(#[source] io::Error),
}

impl Organisation {
    /// Writes all files of the directory, except the broker's streams and tokens, which the broker has itself. Replaces the file, which only its owner can
    /// read. The caller holds the lock, so no other command changes the files meanwhile.
    pub fn write_backup(
        &self,
        _lock: &OrganisationLock,
        path: &Path,
        passphrase: &Zeroizing<String>,
        now: Seconds,
    ) -> Result<BackupSummary, OrganisationError> {
        if passphrase.chars().count() < MIN_PASSPHRASE_CHARS {
            return Err(BackupFileError::ShortPassphrase.into());
        }
        let own = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut names = self.list_saved(Path::new(""), 0)?;
        names.retain(|name| self.layout().directory().join(name) != own);
        names.sort();
        let mut encrypted = Vec::new();
        let mut recipient = scrypt::Recipient::new(SecretString::from(passphrase.as_str()));
        recipient.set_work_factor(WORK_FACTOR);
        let recipients = std::iter::once(&recipient as &dyn age::Recipient);
        let failed = BackupFileError::Write;
        let encryptor = Encryptor::with_recipients(recipients)
            .map_err(|error| failed(io::Error::other(error)))?;
        let encryptor = encryptor.wrap_output(&mut encrypted).map_err(failed)?;
        let mut archive = Builder::new(GzEncoder::new(encryptor, Compression::default()));
        for name in &names {
            let file = self.layout().directory().join(name);
            let mode = fs::metadata(&file).map_err(files::file_error("read", &file))?.mode();
            let bytes = Zeroizing::new(files::read_bytes(&file, MAX_SAVED_BYTES)?);
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(mode & PERMISSION_BITS);
            header.set_size(bytes.len() as u64);
            header.set_mtime(now);
            archive.append_data(&mut header, name, bytes.as_slice()).map_err(failed)?;
        }
        let compressed = archive.into_inner().map_err(failed)?;
        compressed.finish().and_then(StreamWriter::finish).map_err(failed)?;
        files::replace_secret(path, &encrypted)?;
        Ok(BackupSummary { time: now, files: names.len() })
    }

    /// The files below this directory of the organisation, as paths from there.
    fn list_saved(&self, below: &Path, depth: usize) -> Result<Vec<PathBuf>, OrganisationError> {
        let layout = self.layout();
        let directory = layout.directory().join(below);
        if depth > MAX_DEPTH {
            return Err(BackupFileError::Depth(directory).into());
        }
        let failed = files::file_error("read", &directory);
        let mut names = Vec::new();
        for entry in fs::read_dir(&directory).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let (path, name) = (entry.path(), below.join(entry.file_name()));
            if path == layout.broker_tokens() || path == layout.broker_streams() {
                continue;
            }
            let metadata = fs::metadata(&path).map_err(files::file_error("read", &path))?;
            if metadata.is_dir() {
                names.extend(self.list_saved(&name, depth + 1)?);
            } else if metadata.is_file() {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Writes the files of a backup into a directory that is empty or missing. It appears complete or not at all.
pub fn restore_backup(
    path: &Path,
    directory: &Path,
    passphrase: &Zeroizing<String>,
) -> Result<(Organisation, BackupSummary), OrganisationError> {
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    require_empty(&directory)?;
    require_protected(&directory)?;
    let parent = directory.parent().unwrap_or(Path::new("/"));
    files::create_private_directory(parent)?;
    let failed = files::file_error("create", &directory);
    let staging = tempfile::Builder::new()
        .prefix(".restore-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(&failed)?;
    let summary = unpack(path, staging.path(), passphrase)?;
    if let Err(error) = Organisation::open(staging.path()) {
        return Err(BackupFileError::Format(path.to_owned(), Some(io::Error::other(error))).into());
    }
    move_broker_config(staging.path(), &directory)?;
    // Replaces an empty directory.
    fs::rename(staging.path(), &directory).map_err(&failed)?;
    // It has another name now, and must not be removed.
    let _ = staging.keep();
    Ok((Organisation::open(&directory)?, summary))
}

/// The configuration of the broker names the directory of the organisation.
fn move_broker_config(unpacked: &Path, directory: &Path) -> Result<(), OrganisationError> {
    let config = OrganisationLayout::new(unpacked.to_owned()).broker_config();
    if !config.exists() {
        return Ok(());
    }
    let operator = OrganisationLayout::new(directory.to_owned()).operator_token();
    let text = files::read_text(&config, MAX_FILE_BYTES)?;
    Ok(files::replace_public(&config, move_paths(&text, &operator).as_bytes())?)
}

fn unpack(
    path: &Path,
    directory: &Path,
    passphrase: &Zeroizing<String>,
) -> Result<BackupSummary, OrganisationError> {
    let invalid = |error| BackupFileError::Format(path.to_owned(), error);
    let file = File::open(path).map_err(files::file_error("read", path))?;
    let mut identity = scrypt::Identity::new(SecretString::from(passphrase.as_str()));
    identity.set_max_work_factor(MAX_WORK_FACTOR);
    let decrypted = Decryptor::new_buffered(io::BufReader::new(file))
        .and_then(|file| file.decrypt(std::iter::once(&identity as &dyn age::Identity)))
        .map_err(|error| match error {
            DecryptError::Io(source) => invalid(Some(source)),
            DecryptError::DecryptionFailed
            | DecryptError::KeyDecryptionFailed
            | DecryptError::InvalidMac => BackupFileError::Passphrase(path.to_owned()),
            other => invalid(Some(io::Error::other(other))),
        })?;
    let damaged = |error| BackupFileError::Damaged(path.to_owned(), error);
    let content = GzDecoder::new(decrypted).take(MAX_RESTORED_BYTES);
    let mut summary = BackupSummary { time: 0, files: 0 };
    let mut archive = Archive::new(content);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = entry.path().map_err(damaged)?.into_owned();
        let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
        if entry.header().entry_type() != EntryType::Regular || !is_below {
            let (path, entry) = (path.to_owned(), name.display().to_string());
            return Err(BackupFileError::Entry { path, entry }.into());
        }
        let read = |field: io::Result<u64>| field.map_err(damaged);
        summary = BackupSummary { time: read(entry.header().mtime())?, files: summary.files + 1 };
        if summary.files > MAX_RESTORED_FILES || entry.size() > MAX_SAVED_BYTES as u64 {
            return Err(BackupFileError::TooLarge(path.to_owned()).into());
        }
        let mut bytes = Zeroizing::new(Vec::new());
        entry.read_to_end(&mut bytes).map_err(damaged)?;
        let target = directory.join(&name);
        files::create_private_directory(target.parent().unwrap_or(directory))?;
        let mode = read(entry.header().mode().map(u64::from))?;
        if mode & OTHERS_READ == 0 {
            files::create_secret(&target, &bytes)?;
        } else {
            files::create_public_if_missing(&target, &bytes)?;
        }
    }
    Ok(summary)
}
