//! Home directories in a scratch root: made from the skeleton, handed over to another number, judged before removal.
//!
//! A process that is not root cannot give files away; they then stay its own, and that is no failure.

use std::io;
use std::path::Path;

use muster_system::{Attributes, FileKind, System, SystemError};

use super::super::User;
use super::super::defaults::Defaults;
use crate::providers::paths;

/// Longest file of the skeleton, in bytes.
const SKEL_LIMIT: u64 = 16 * 1024 * 1024;
/// Deepest directory that is copied or handed over; guards against a loop of mounts.
const MAX_DEPTH: usize = 64;
/// Directories below which nobody lives, whatever passwd says.
const NEVER: [&str; 11] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
];

/// Makes the home directory from the skeleton. One that is there is left as it is, as useradd does.
pub(super) fn create(
    system: &dyn System,
    user: &User,
    defaults: &Defaults,
) -> Result<(), SystemError> {
    let home = Path::new(&user.home);
    if system.metadata(home)?.is_some() {
        return Ok(());
    }
    if let Some(parent) = home.parent() {
        paths::create_dirs(system, parent, &Attributes::default())?;
    }
    system.create_dir(home, &mode(0o700))?;
    let skel = Path::new(&defaults.skel);
    if system.metadata(skel)?.is_some() {
        copy(system, skel, home, user, MAX_DEPTH)?;
    }
    give(system, home, user.uid, user.gid)?;
    system.set_attributes(home, &mode(defaults.home_mode))
}

fn copy(
    system: &dyn System,
    from: &Path,
    to: &Path,
    user: &User,
    depth: usize,
) -> Result<(), SystemError> {
    for name in system.read_dir(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        let Some(found) = system.metadata(&from)? else {
            continue;
        };
        match found.kind {
            FileKind::File => {
                system.write(&to, &system.read(&from, SKEL_LIMIT)?, &mode(found.mode))?;
            }
            FileKind::Link => system.symlink(&system.read_link(&from)?, &to)?,
            FileKind::Directory if depth > 0 => {
                system.create_dir(&to, &mode(found.mode))?;
                copy(system, &from, &to, user, depth - 1)?;
            }
            FileKind::Directory | FileKind::Other => continue,
        }
        give(system, &to, user.uid, user.gid)?;
    }
    Ok(())
}

/// Gives what belonged to the user's old number to the new one.
pub(super) fn hand_over(system: &dyn System, user: &User, uid: u32) -> Result<(), SystemError> {
    if is_somebodys(&user.home) {
        hand_over_tree(system, Path::new(&user.home), user.uid, uid, MAX_DEPTH)?;
    }
    Ok(())
}

fn hand_over_tree(
    system: &dyn System,
    path: &Path,
    from: u32,
    to: u32,
    depth: usize,
) -> Result<(), SystemError> {
    let Some(found) = system.metadata(path)? else {
        return Ok(());
    };
    if found.kind == FileKind::Directory && depth > 0 {
        for name in system.read_dir(path)? {
            hand_over_tree(system, &path.join(name), from, to, depth - 1)?;
        }
    }
    if found.uid == from {
        give(system, path, to, found.gid)?;
    }
    Ok(())
}

/// Whether a home directory may be removed with its user: it is nobody else's, and not the system's.
pub(super) fn is_removable(user: &User, users: &[User]) -> bool {
    let home = Path::new(&user.home);
    is_somebodys(&user.home)
        && users
            .iter()
            .filter(|other| other.name != user.name)
            .all(|other| !Path::new(&other.home).starts_with(home))
}

/// Two names deep at least, without `..`, and outside the system's own directories.
fn is_somebodys(home: &str) -> bool {
    let path = Path::new(home);
    let plain = home.starts_with('/') && !home.split('/').any(|part| part == "..");
    let deep = path.components().count() > 2;
    plain
        && deep
        && !NEVER.iter().any(|directory| path.starts_with(directory))
        && !(path.starts_with("/var") && path.components().count() == 3)
}

fn mode(mode: u32) -> Attributes {
    Attributes {
        mode: Some(mode),
        ..Attributes::default()
    }
}

fn give(system: &dyn System, path: &Path, uid: u32, gid: u32) -> Result<(), SystemError> {
    let owner = Attributes {
        mode: None,
        uid: Some(uid),
        gid: Some(gid),
    };
    match system.set_attributes(path, &owner) {
        Err(SystemError::File { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(())
        }
        other => other,
    }
}
