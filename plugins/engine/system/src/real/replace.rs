//! Changes of single files on the host: atomic replacement, attributes, durability of renames.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown, lchown};
use std::path::Path;

use super::metadata::absent_is_none;
use super::xattrs;
use crate::FileAttributes;

const DEFAULT_FILE_MODE: u32 = 0o644;

/// When written data must survive a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteDurability {
    Immediate,
    Deferred,
}

/// Temporary file in the same directory, with a name that identifies its purpose in a listing.
pub(super) fn temporary_builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".muster-").suffix(".tmp");
    builder
}

/// The temporary file starts with mode 0600 and gets its owner before its mode, so no other user can read it in between.
pub(super) fn replace_file(
    host: &Path,
    content: &[u8],
    attributes: &FileAttributes,
    durability: WriteDurability,
) -> io::Result<()> {
    let existing = absent_is_none(fs::symlink_metadata(host))?;
    if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut new = temporary_builder().tempfile_in(parent_directory(host)?)?;
    new.write_all(content)?;
    let new_metadata = new.as_file().metadata()?;
    let uid = attributes.uid.or(existing.as_ref().map(MetadataExt::uid));
    let gid = attributes.gid.or(existing.as_ref().map(MetadataExt::gid));
    let uid = uid.filter(|id| *id != new_metadata.uid());
    let gid = gid.filter(|id| *id != new_metadata.gid());
    if uid.is_some() || gid.is_some() {
        fchown(new.as_file(), uid, gid)?;
    }
    if existing.is_some() {
        xattrs::copy_xattrs(host, new.as_file())?;
    }
    let mode =
        attributes.mode.or(existing.as_ref().map(MetadataExt::mode)).unwrap_or(DEFAULT_FILE_MODE);
    new.as_file().set_permissions(Permissions::from_mode(mode & 0o7777))?;
    if durability == WriteDurability::Immediate {
        new.as_file().sync_all()?;
    }
    match new.persist(host) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::ResourceBusy => {
            return write_in_place(host, content, attributes);
        }
        Err(error) => return Err(error.error),
    }
    if durability == WriteDurability::Immediate { sync_parent(host) } else { Ok(()) }
}

/// Overwrites a file that cannot be replaced because it is a mount point, as `/etc/hosts` is in containers. The file keeps its inode, owner and
/// mode. It is not atomic: a reader can see a part of the new content, and a crash can leave such a part.
fn write_in_place(host: &Path, content: &[u8], attributes: &FileAttributes) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(host)?;
    file.write_all(content)?;
    // Shortened only at the end: the file is never empty in between.
    file.set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))?;
    apply_attributes(host, attributes)?;
    file.sync_all()
}

/// Owner first: changing it clears the set-user-id bits. Links have no mode of their own on Linux.
pub(super) fn apply_attributes(host: &Path, attributes: &FileAttributes) -> io::Result<()> {
    let found = fs::symlink_metadata(host)?;
    let uid = attributes.uid.filter(|uid| *uid != found.uid());
    let gid = attributes.gid.filter(|gid| *gid != found.gid());
    if uid.is_some() || gid.is_some() {
        lchown(host, uid, gid)?;
    }
    match attributes.mode {
        Some(mode) if !found.file_type().is_symlink() => {
            fs::set_permissions(host, Permissions::from_mode(mode & 0o7777))
        }
        _ => Ok(()),
    }
}

pub(super) fn parent_directory(host: &Path) -> io::Result<&Path> {
    host.parent()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is the root directory"))
}

/// Makes a rename durable across a power failure.
pub(super) fn sync_parent(host: &Path) -> io::Result<()> {
    File::open(parent_directory(host)?)?.sync_all()
}
