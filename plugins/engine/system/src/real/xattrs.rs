//! Extended attributes of files: `SELinux` context, access control list, and user attributes.
//!
//! A replacement file inherits them from the old file, except capabilities, which must not pass to different content.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr, lgetxattr, llistxattr};
use rustix::io::Errno;

/// The kernel's limit for a list of names and for a value.
const MAX_XATTR_BYTES: usize = 64 * 1024;

/// Copies extended attributes to a new file. If the file system does not support or permit this, its defaults apply.
pub(super) fn copy_xattrs(old: &Path, new: &File) -> io::Result<()> {
    copy_listed(|list| llistxattr(old, list), |name, value| lgetxattr(old, name, value), new)
}

/// Like [`copy_xattrs`], from an open file.
pub(crate) fn copy_file_xattrs(old: &File, new: &File) -> io::Result<()> {
    copy_listed(|list| flistxattr(old, list), |name, value| fgetxattr(old, name, value), new)
}

fn copy_listed(
    list_names: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    read_value: impl Fn(&[u8], &mut [u8]) -> rustix::io::Result<usize>,
    new: &File,
) -> io::Result<()> {
    let mut buffer = vec![0; MAX_XATTR_BYTES];
    let length = match list_names(buffer.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if length == 0 {
        return Ok(());
    }
    let names = buffer.get(..length).unwrap_or_default().to_vec();
    for name in names.split(|byte| *byte == 0).filter(|name| is_copied_xattr(name)) {
        let length = match read_value(name, buffer.as_mut_slice()) {
            Ok(length) => length,
            // Removed since it was listed.
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error.into()),
        };
        let value = buffer.get(..length).unwrap_or_default();
        match fsetxattr(new, name, value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_copied_xattr(name: &[u8]) -> bool {
    name == b"security.selinux" || name == b"system.posix_acl_access" || name.starts_with(b"user.")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use rustix::fs::{XattrFlags, fsetxattr, lgetxattr};

    use crate::{FileAttributes, System as _, real::RealSystem};

    fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 256];
        let length = lgetxattr(path, name, buffer.as_mut_slice()).ok()?;
        buffer.truncate(length);
        Some(buffer)
    }

    /// A9.8: includes the `SELinux` context, which root can set even without `SELinux`. Checks only the attributes that could be set.
    #[test]
    fn replaced_file_keeps_its_extended_attributes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hosts");
        fs::write(&path, "old").expect("writes");
        let file = File::open(&path).expect("opens");
        let context = b"system_u:object_r:net_conf_t:s0\0";
        let marks = [("user.note", &b"mine"[..]), ("security.selinux", context)];
        let taken: Vec<_> = marks
            .into_iter()
            .filter(|(name, value)| fsetxattr(&file, *name, value, XattrFlags::empty()).is_ok())
            .collect();
        let system = RealSystem::new(directory.path().to_owned());
        let attributes = FileAttributes::default();
        let written = system.write_file(Path::new("/hosts"), b"new", &attributes);
        written.expect("replaces");
        assert_eq!(fs::read(&path).expect("reads"), b"new");
        for (name, expected) in taken {
            assert_eq!(value(&path, name).as_deref(), Some(expected), "{name}");
        }
    }
}
