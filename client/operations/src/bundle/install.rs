//! Installs bundles where a node searches for agents. Each has a directory of its own, `mcollective/agent/NAME`, which is created, replaced and
//! removed by a single rename; a record in it lists the installed files. Signatures are verified elsewhere.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use muster_files::files::{self, FileAccessError};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::{Millis, limits};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

use super::error::BundleFileError;
use super::manifest::{BundleFile, BundleFileMode, ManifestEntry, check_path};
use super::open::OpenBundle;

/// Below the directory of agents. Nodes search it three levels deep.
const AGENT_SUBDIRECTORY: &str = "mcollective/agent";
/// In the agent's directory; hidden, so that it is not mistaken for a DDL.
const INSTALL_RECORD_FILE: &str = ".bundle.json";

/// Record of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallRecord {
    /// The agent.
    pub name: SubjectName,
    /// Its version.
    pub version: semver::Version,
    /// The signer of the bundle.
    pub signer: Identity,
    /// The signer's public key.
    pub key: String,
    /// Time of packing, by the signer's clock.
    pub packed_at: Millis,
    /// Time of installation, by this machine's clock.
    pub installed_at: Millis,
    /// The installed files.
    pub files: BTreeMap<String, ManifestEntry>,
}

/// An installed bundle.
#[derive(Debug)]
pub struct InstalledBundle {
    /// The record.
    pub record: InstallRecord,
    /// Its directory.
    pub directory: PathBuf,
}

/// The directory for a bundle of this agent.
pub fn bundle_directory(ddls: &Path, agent: &SubjectName) -> PathBuf {
    ddls.join(AGENT_SUBDIRECTORY).join(agent.as_str())
}

/// Returns the installed bundle of this agent, if any.
pub fn find_installed(
    ddls: &Path,
    agent: &SubjectName,
) -> Result<Option<InstalledBundle>, BundleFileError> {
    let directory = bundle_directory(ddls, agent);
    let path = directory.join(INSTALL_RECORD_FILE);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = files::read_bytes(&path, limits::MAX_BUNDLE_MANIFEST_BYTES)?;
    let record: InstallRecord = serde_json::from_slice(&bytes)
        .map_err(|source| BundleFileError::Record(path.clone(), source))?;
    // Removal deletes the paths of the record, so they must stay below the directory.
    for file in record.files.keys() {
        check_path(agent, file).map_err(|source| BundleFileError::Refused(path.clone(), source))?;
    }
    Ok(Some(InstalledBundle { record, directory }))
}

/// Installs a bundle atomically: after an error the previous state remains.
pub fn install_bundle(
    ddls: &Path,
    bundle: &OpenBundle<'_>,
    now: Millis,
    downgrade: bool,
) -> Result<Option<InstallRecord>, BundleFileError> {
    let manifest = &bundle.manifest;
    if !ddls.is_dir() {
        return Err(BundleFileError::NoDirectory(ddls.to_owned()));
    }
    let manual_ddl = ddls.join(manifest.ddl_path());
    if manual_ddl.exists() {
        return Err(BundleFileError::AlreadyExists(manual_ddl));
    }
    let previous = find_installed(ddls, &manifest.name)?;
    let target = bundle_directory(ddls, &manifest.name);
    match &previous {
        Some(installed) => check_replaceable(installed, &manifest.version, downgrade)?,
        None if target.symlink_metadata().is_ok() => {
            return Err(BundleFileError::AlreadyExists(target));
        }
        None => {}
    }
    let record = InstallRecord {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        signer: bundle.signer.identity.clone(),
        key: bundle.signer.key.to_string(),
        packed_at: manifest.packed_at,
        installed_at: now,
        files: manifest.files.clone(),
    };
    let mut parent = ddls.to_owned();
    for part in AGENT_SUBDIRECTORY.split('/') {
        parent.push(part);
        make_directory(&parent)?;
    }
    // Beside the target, not below it; nodes skip hidden directories.
    let staging = tempfile::Builder::new()
        .prefix(".staging-")
        .tempdir_in(ddls)
        .map_err(files::file_error("create a directory in", ddls))?;
    let new_directory = staging.path().join(manifest.name.as_str());
    stage_files(&new_directory, bundle, &record)?;
    let result = if previous.is_some() {
        exchange_directories(&new_directory, &target, staging.path())
    } else {
        fs::rename(&new_directory, &target)
    };
    result
        .and_then(|()| File::open(&parent)?.sync_all())
        .map_err(files::file_error("install", &target))?;
    Ok(previous.map(|installed| installed.record))
}

/// Exchanges two directories atomically; on a file system without support, with two renames that are rolled back on failure.
fn exchange_directories(new_directory: &Path, target: &Path, staging: &Path) -> io::Result<()> {
    if renameat_with(CWD, new_directory, CWD, target, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let old_directory = staging.join(".old");
    fs::rename(target, &old_directory)?;
    fs::rename(new_directory, target).inspect_err(|_| {
        // The first failure is the one to report; the old files remain in the staging directory.
        let _ = fs::rename(&old_directory, target);
    })
}

/// An upgrade must not overwrite manual changes, and a downgrade needs an explicit flag.
fn check_replaceable(
    installed: &InstalledBundle,
    version: &semver::Version,
    downgrade: bool,
) -> Result<(), BundleFileError> {
    let record = &installed.record;
    if *version < record.version && !downgrade {
        return Err(BundleFileError::Older {
            name: record.name.clone(),
            found: record.version.clone(),
            offered: version.clone(),
        });
    }
    let mut files = changed_files(installed)?;
    files.extend(foreign_files(installed)?.into_iter().map(|file| format!("{file} was added")));
    if files.is_empty() {
        return Ok(());
    }
    Err(BundleFileError::Changed(record.name.clone(), files))
}

/// Files that differ from the installed ones; missing files do not count.
pub fn changed_files(installed: &InstalledBundle) -> Result<Vec<String>, BundleFileError> {
    let mut changed = Vec::new();
    for (file, recorded) in &installed.record.files {
        let path = installed.directory.join(file);
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        // Size and type first, so that nothing larger than a bundle is read.
        let is_same = metadata.is_file() && metadata.len() == recorded.bytes && {
            let bytes = &files::read_bytes(&path, limits::MAX_BUNDLE_BYTES)?;
            BundleFile { mode: recorded.mode, bytes }.manifest_entry() == *recorded
        };
        if !is_same {
            changed.push(format!("{file} was changed"));
        }
    }
    Ok(changed)
}

/// Files that no bundle installed, except Python's caches.
fn foreign_files(installed: &InstalledBundle) -> Result<Vec<String>, BundleFileError> {
    let mut found = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(parent) = pending.pop() {
        let directory = installed.directory.join(&parent);
        let failed = files::file_error("list", &directory);
        for entry in fs::read_dir(&directory).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let relative =
                if parent.is_empty() { name.clone() } else { format!("{parent}/{name}") };
            let is_known = relative == INSTALL_RECORD_FILE
                || name == "__pycache__"
                || installed.record.files.contains_key(&relative);
            match entry.file_type() {
                _ if is_known => {}
                Ok(kind) if kind.is_dir() => pending.push(relative),
                _ => found.push(relative),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the recorded files, the DDL first, so that the node stops offering the agent. Returns the remaining files.
pub fn remove_bundle(installed: &InstalledBundle) -> Result<Vec<String>, BundleFileError> {
    let (record, directory) = (&installed.record, &installed.directory);
    let ddl = format!("{}.json", record.name);
    let others = record.files.keys().filter(|file| **file != ddl);
    let mut parents: Vec<PathBuf> = Vec::new();
    for file in std::iter::once(&ddl).chain(others) {
        let path = directory.join(file);
        remove_file(&path)?;
        parents.extend(
            path.ancestors().skip(1).filter(|path| path.starts_with(directory)).map(Path::to_owned),
        );
    }
    let left = foreign_files(installed)?;
    remove_file(&directory.join(INSTALL_RECORD_FILE))?;
    // Deepest directories first. Non-empty ones contain other files, and stay.
    parents.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    parents.dedup();
    for path in parents {
        let _ = fs::remove_dir(path);
    }
    Ok(left)
}

/// Removes a file. A missing one counts as removed.
fn remove_file(path: &Path) -> Result<(), FileAccessError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(files::file_error("remove", path)),
    }
}

/// Writes the files, the record last, and syncs them to disk.
fn stage_files(
    new_directory: &Path,
    bundle: &OpenBundle<'_>,
    record: &InstallRecord,
) -> Result<(), BundleFileError> {
    make_directory(new_directory)?;
    for (file, content) in &bundle.files {
        let path = new_directory.join(file);
        // A path has at most two directories.
        for (at, _) in file.match_indices('/') {
            make_directory(&new_directory.join(file.split_at(at).0))?;
        }
        write_file(&path, content.bytes, content.mode)?;
    }
    let path = new_directory.join(INSTALL_RECORD_FILE);
    let text = serde_json::to_vec_pretty(record)
        .map_err(|source| BundleFileError::Record(path.clone(), source))?;
    Ok(write_file(&path, &text, BundleFileMode::Data)?)
}

/// Sets the mode independently of the umask: a node rejects agents that other users can write to.
fn write_file(path: &Path, bytes: &[u8], mode: BundleFileMode) -> Result<(), FileAccessError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(mode.permission_bits()))?;
        file.sync_all()
    };
    write().map_err(files::file_error("write", path))
}

/// Creates a directory; an existing one stays unchanged.
fn make_directory(path: &Path) -> Result<(), FileAccessError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755))),
    }
    .map_err(files::file_error("create", path))
}
