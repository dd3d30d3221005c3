//! Reads files in directories that other users may change, such as the state of Puppet. The reader is usually root, so such a user must neither make it read a
//! file that the user cannot read, nor stop it: a link of a user leads only to files of that user, and pipes, sockets and devices are not opened.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;

use crate::bounded::read_limited;

/// Most symbolic links followed on one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The content of a regular file of at most `limit` bytes.
///
/// # Errors
/// Those of [`open_regular_file`], and [`io::ErrorKind::FileTooLarge`].
pub fn read_regular_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_limited(open_regular_file(path)?, limit)
}

/// Opens a regular file for reading. Links of root and of this process's user are followed; one of another user only if its target belongs to the same
/// user. What is opened is what was checked, so a concurrent rename cannot bypass the checks.
///
/// # Errors
/// Names what is wrong, but not the path.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    let (found, link_owners) = find_target(&std::path::absolute(path)?)?;
    let metadata = found.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if let Some(owner) = link_owners.into_iter().find(|owner| *owner != metadata.uid()) {
        let problem = format!(
            "a link on its path belongs to user {owner}, and the file does not; it is not followed"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let descriptor = format!("/proc/self/fd/{}", found.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(descriptor)
}

/// The target of an absolute path, opened without access to its content, and the other users to whom links on the path belong.
fn find_target(path: &Path) -> io::Result<(File, Vec<u32>)> {
    let own_user = nix::unistd::geteuid().as_raw();
    let mut current = open_root()?;
    let mut link_owners = Vec::new();
    let mut links_left = MAX_LINKS;
    let mut pending = list_names_reversed(path);
    while let Some(name) = pending.pop() {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let next = File::from(openat(&current, name.as_os_str(), flags, Mode::empty())?);
        let metadata = next.metadata()?;
        if !metadata.is_symlink() {
            current = next;
            continue;
        }
        links_left =
            links_left.checked_sub(1).ok_or_else(|| io::Error::other("too many symbolic links"))?;
        if ![0, own_user].contains(&metadata.uid()) {
            link_owners.push(metadata.uid());
        }
        let target = PathBuf::from(readlinkat(&next, "")?);
        if target.is_absolute() {
            current = open_root()?;
        }
        pending.extend(list_names_reversed(&target));
    }
    Ok((current, link_owners))
}

fn open_root() -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    // The access mode is ignored with this flag.
    OpenOptions::new().read(true).custom_flags(flags.bits()).open("/")
}

/// The components of a path, the last one first.
fn list_names_reversed(path: &Path) -> Vec<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().rev().filter_map(name).collect()
}
