//! Home directories in a scratch root: creation from the skeleton, ownership changes, checks before removal.
//!
//! An unprivileged process cannot change ownership; the files then keep its owner, which is not an error.

use std::io;
use std::path::Path;

use muster_system::{FileAttributes, FileEntryKind, System, SystemError, SystemResult};

use super::super::UserAccount;
use super::super::defaults::AccountDefaults;
use crate::providers::paths;

const MAX_SKEL_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum depth of a directory that is copied or changed; protects against mount loops.
const MAX_HOME_DEPTH: usize = 64;
/// Directories whose contents are never removed as a home directory, whatever passwd says.
const SYSTEM_DIRECTORIES: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"];

/// Creates the home directory from the skeleton. An existing directory is left unchanged, as in useradd.
pub(super) fn create_home(
    system: &dyn System,
    user: &UserAccount,
    defaults: &AccountDefaults,
) -> SystemResult<()> {
    let home = Path::new(&user.home);
    if system.metadata(home)?.is_some() {
        return Ok(());
    }
    if let Some(parent) = home.parent() {
        paths::create_dirs(system, parent, &FileAttributes::default())?;
    }
    system.create_dir(home, &FileAttributes::with_mode(0o700))?;
    let skel = Path::new(&defaults.skel);
    if system.metadata(skel)?.is_some() {
        copy_tree(system, skel, home, user, MAX_HOME_DEPTH)?;
    }
    set_owner(system, home, user.uid, user.gid)?;
    system.set_attributes(home, &FileAttributes::with_mode(defaults.home_mode))
}

fn copy_tree(
    system: &dyn System,
    from: &Path,
    to: &Path,
    user: &UserAccount,
    depth: usize,
) -> SystemResult<()> {
    for name in system.read_dir(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        let Some(found) = system.metadata(&from)? else { continue };
        match found.kind {
            FileEntryKind::File => {
                system.write_file(
                    &to,
                    &system.read_file(&from, MAX_SKEL_FILE_BYTES)?,
                    &FileAttributes::with_mode(found.mode),
                )?;
            }
            FileEntryKind::Link => system.create_symlink(&system.read_link(&from)?, &to)?,
            FileEntryKind::Directory if depth > 0 => {
                system.create_dir(&to, &FileAttributes::with_mode(found.mode))?;
                copy_tree(system, &from, &to, user, depth - 1)?;
            }
            FileEntryKind::Directory | FileEntryKind::Other => continue,
        }
        set_owner(system, &to, user.uid, user.gid)?;
    }
    Ok(())
}

/// Changes the owner of files from the user's old uid to the new one.
pub(super) fn change_home_owner(
    system: &dyn System,
    user: &UserAccount,
    uid: u32,
) -> SystemResult<()> {
    if is_user_directory(&user.home) {
        change_tree_owner(system, Path::new(&user.home), user.uid, uid, MAX_HOME_DEPTH)?;
    }
    Ok(())
}

fn change_tree_owner(
    system: &dyn System,
    path: &Path,
    from: u32,
    to: u32,
    depth: usize,
) -> SystemResult<()> {
    let Some(found) = system.metadata(path)? else { return Ok(()) };
    if found.kind == FileEntryKind::Directory && depth > 0 {
        for name in system.read_dir(path)? {
            change_tree_owner(system, &path.join(name), from, to, depth - 1)?;
        }
    }
    if found.uid == from {
        set_owner(system, path, to, found.gid)?;
    }
    Ok(())
}

/// Whether a home directory may be removed with its user: not shared with another user, not a system directory.
pub(super) fn is_removable(user: &UserAccount, users: &[UserAccount]) -> bool {
    let home = Path::new(&user.home);
    is_user_directory(&user.home)
        && users
            .iter()
            .filter(|other| other.name != user.name)
            .all(|other| !Path::new(&other.home).starts_with(home))
}

/// At least two components, without `..`, and outside the system directories.
fn is_user_directory(home: &str) -> bool {
    let path = Path::new(home);
    let plain = home.starts_with('/') && !home.split('/').any(|part| part == "..");
    let deep = path.components().count() > 2;
    plain
        && deep
        && !SYSTEM_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
        && !(path.starts_with("/var") && path.components().count() == 3)
}

fn set_owner(system: &dyn System, path: &Path, uid: u32, gid: u32) -> SystemResult<()> {
    let owner = FileAttributes { mode: None, uid: Some(uid), gid: Some(gid) };
    match system.set_attributes(path, &owner) {
        Err(SystemError::File { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(())
        }
        other => other,
    }
}
