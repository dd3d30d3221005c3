//! Bundles where a node looks for agents. Each has a directory of its own, `mcollective/agent/NAME`, which comes, changes and goes
//! by one rename; a record in it says what was put there. Nothing here decides whether a bundle is believed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use muster_wire::bundle::{Content, Listed, Mode, OpenBundle};
use muster_wire::identity::{Identity, Name};
use muster_wire::{Millis, limits};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

use super::{BundleFileError, read};

/// Below the directory of agents. Nodes look there three levels deep.
const BELOW: &str = "mcollective/agent";
/// In the agent's directory; hidden, so that nobody takes it for a DDL.
const RECORD: &str = ".bundle.json";

/// What was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The agent.
    pub name: Name,
    /// Its version.
    pub version: semver::Version,
    /// Who signed the bundle.
    pub signer: Identity,
    /// The signer's public key.
    pub key: String,
    /// When it was packed, by the signer's clock.
    pub packed_at: Millis,
    /// When it was installed, by this machine's clock.
    pub installed_at: Millis,
    /// What was put there.
    pub files: BTreeMap<String, Listed>,
}

/// An installed bundle.
#[derive(Debug)]
pub struct Installed {
    /// What was put there.
    pub record: Record,
    /// Where.
    pub directory: PathBuf,
}

/// Where a bundle of this agent is.
pub fn directory(ddls: &Path, agent: &Name) -> PathBuf {
    ddls.join(BELOW).join(agent.as_str())
}

/// The bundle of this agent, if there is one.
pub fn find(ddls: &Path, agent: &Name) -> Result<Option<Installed>, BundleFileError> {
    let directory = directory(ddls, agent);
    let path = directory.join(RECORD);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = read(&path, limits::BUNDLE_MANIFEST_BYTES)?;
    let record: Record =
        serde_json::from_slice(&bytes).map_err(|source| BundleFileError::Record {
            path: path.clone(),
            source,
        })?;
    // What is removed later is what the record names: it must not lead elsewhere.
    for file in record.files.keys() {
        muster_wire::bundle::check_path(agent, file).map_err(|source| {
            BundleFileError::Refused {
                path: path.clone(),
                source,
            }
        })?;
    }
    Ok(Some(Installed { record, directory }))
}

/// Puts a bundle in place. Either all of it is there afterwards, or all is as it was.
pub fn install(
    ddls: &Path,
    bundle: &OpenBundle<'_>,
    now: Millis,
    downgrade: bool,
) -> Result<Option<Record>, BundleFileError> {
    let manifest = &bundle.manifest;
    if !ddls.is_dir() {
        return Err(BundleFileError::NoDirectory(ddls.to_owned()));
    }
    let by_hand = ddls.join(manifest.ddl());
    if by_hand.exists() {
        return Err(BundleFileError::InTheWay(by_hand));
    }
    let before = find(ddls, &manifest.name)?;
    let target = directory(ddls, &manifest.name);
    match &before {
        Some(installed) => replaceable(installed, &manifest.version, downgrade)?,
        None if target.symlink_metadata().is_ok() => {
            return Err(BundleFileError::InTheWay(target));
        }
        None => {}
    }
    let record = Record {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        signer: bundle.signer.identity.clone(),
        key: bundle.signer.key.to_string(),
        packed_at: manifest.packed_at,
        installed_at: now,
        files: manifest.files.clone(),
    };
    let parent = ddls.join(BELOW);
    make_directories(ddls)?;
    // Beside the target and not below it: nobody looks into hidden directories.
    let staging = tempfile::Builder::new()
        .prefix(".staging-")
        .tempdir_in(ddls)
        .map_err(BundleFileError::file("make a directory in", ddls))?;
    let fresh = staging.path().join(manifest.name.as_str());
    stage(&fresh, bundle, &record)?;
    let placed = if before.is_some() {
        exchange(&fresh, &target, staging.path())
    } else {
        fs::rename(&fresh, &target)
    };
    placed
        .and_then(|()| File::open(&parent)?.sync_all())
        .map_err(BundleFileError::file("put in place", &target))?;
    Ok(before.map(|installed| installed.record))
}

/// Swaps two directories at once; where the file system cannot, one after the other, and back if that fails.
fn exchange(fresh: &Path, target: &Path, staging: &Path) -> io::Result<()> {
    if renameat_with(CWD, fresh, CWD, target, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let old = staging.join(".old");
    fs::rename(target, &old)?;
    fs::rename(fresh, target).inspect_err(|_| {
        // What fails here is told as the first failure; nothing is lost, as the old files are in the staging directory.
        let _ = fs::rename(&old, target);
    })
}

/// An upgrade must lose nothing that a person made, and an older version is only taken by somebody who says so.
fn replaceable(
    installed: &Installed,
    version: &semver::Version,
    downgrade: bool,
) -> Result<(), BundleFileError> {
    let record = &installed.record;
    if *version < record.version && !downgrade {
        return Err(BundleFileError::Older {
            name: record.name.to_string(),
            found: record.version.clone(),
            offered: version.clone(),
        });
    }
    let mut files = changed(installed)?;
    files.extend(
        strange(installed)?
            .into_iter()
            .map(|file| format!("{file} was added")),
    );
    if files.is_empty() {
        return Ok(());
    }
    let name = record.name.to_string();
    Err(BundleFileError::Changed { name, files })
}

/// The files that are not as they were installed; those that are gone are no loss.
pub fn changed(installed: &Installed) -> Result<Vec<String>, BundleFileError> {
    let mut changed = Vec::new();
    for (file, listed) in &installed.record.files {
        let path = installed.directory.join(file);
        let Ok(found) = path.symlink_metadata() else {
            continue;
        };
        if !found.is_file() || found.len() != listed.bytes {
            changed.push(format!("{file} was changed"));
            continue;
        }
        let bytes = read(&path, limits::BUNDLE_BYTES)?;
        let mode = listed.mode;
        let bytes = bytes.as_slice();
        if (Content { mode, bytes }).listed() != *listed {
            changed.push(format!("{file} was changed"));
        }
    }
    Ok(changed)
}

/// The files that no bundle put there, but for Python's caches.
fn strange(installed: &Installed) -> Result<Vec<String>, BundleFileError> {
    let mut found = Vec::new();
    let mut waiting = vec![String::new()];
    while let Some(above) = waiting.pop() {
        let directory = installed.directory.join(&above);
        let failed = || BundleFileError::file("list", &directory);
        for entry in fs::read_dir(&directory).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = if above.is_empty() {
                name.clone()
            } else {
                format!("{above}/{name}")
            };
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if below == RECORD
                || name == "__pycache__"
                || installed.record.files.contains_key(&below)
            {
                continue;
            }
            if is_directory {
                waiting.push(below);
            } else {
                found.push(below);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Removes what the record names, the DDL first: from then on the node offers the agent no more. Tells what is left.
pub fn remove(installed: &Installed) -> Result<Vec<String>, BundleFileError> {
    let (record, directory) = (&installed.record, &installed.directory);
    let ddl = format!("{}.json", record.name);
    let others = record.files.keys().filter(|file| **file != ddl);
    let mut above: Vec<PathBuf> = Vec::new();
    for file in std::iter::once(&ddl).chain(others) {
        let path = directory.join(file);
        gone(fs::remove_file(&path)).map_err(BundleFileError::file("remove", &path))?;
        above.extend(
            path.ancestors()
                .skip(1)
                .filter(|path| path.starts_with(directory))
                .map(Path::to_owned),
        );
    }
    let left = strange(installed)?;
    let path = directory.join(RECORD);
    gone(fs::remove_file(&path)).map_err(BundleFileError::file("remove", &path))?;
    // The deepest first. Those that are not empty are not ours alone, and stay.
    above.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    above.dedup();
    for path in above {
        let _ = fs::remove_dir(path);
    }
    Ok(left)
}

/// What is gone need not be removed.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Writes the files, the record last, and waits until they are on the disk.
fn stage(fresh: &Path, bundle: &OpenBundle<'_>, record: &Record) -> Result<(), BundleFileError> {
    make_directory(fresh)?;
    for (file, content) in &bundle.files {
        let path = fresh.join(file);
        let mut above: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != fresh)
            .collect();
        above.reverse();
        for directory in above {
            make_directory(directory)?;
        }
        write(&path, content.bytes, content.mode)?;
    }
    let path = fresh.join(RECORD);
    let text = serde_json::to_vec_pretty(record).map_err(|source| BundleFileError::Record {
        path: path.clone(),
        source,
    })?;
    write(&path, &text, Mode::Data)
}

/// Whatever the umask is: a node refuses agents that others can write to.
fn write(path: &Path, bytes: &[u8], mode: Mode) -> Result<(), BundleFileError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(BundleFileError::file("write", path))?;
    file.write_all(bytes)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode.bits())))
        .and_then(|()| file.sync_all())
        .map_err(BundleFileError::file("write", path))
}

fn make_directories(ddls: &Path) -> Result<(), BundleFileError> {
    let mut path = ddls.to_owned();
    for part in BELOW.split('/') {
        path.push(part);
        make_directory(&path)?;
    }
    Ok(())
}

/// One that is there stays as it is.
fn make_directory(path: &Path) -> Result<(), BundleFileError> {
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755))
            .map_err(BundleFileError::file("make", path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(BundleFileError::file("make", path)(error)),
    }
}
