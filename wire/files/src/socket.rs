//! A Unix socket that only its owner, and optionally a group, can open.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::unistd::Gid;

/// Binds a socket with mode 0600, or 0660 with this group. A socket of an earlier process is replaced; another file is not. It is bound under another name, so that
/// no client can connect before its permissions are set. The listener does not block.
pub fn bind_socket(path: &Path, group: Option<Gid>) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file that is no socket; remove it, or configure another path",
            ));
        }
        _ => {}
    }
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    let new = Path::new(&new);
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(new)?;
    listener.set_nonblocking(true)?;
    let mode = if let Some(group) = group {
        std::os::unix::fs::chown(new, None, Some(group.as_raw()))?;
        0o660
    } else {
        0o600
    };
    std::fs::set_permissions(new, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(new, path)?;
    Ok(listener)
}
