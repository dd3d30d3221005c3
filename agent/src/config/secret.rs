//! Whether a file that holds a secret is kept from others. It does not read the secret.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Why a secret's file is not used.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// It cannot be looked at.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// It is a directory or a device.
    #[error("{} is not a file", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// Its group, or everybody, can read or change it.
    #[error("{path} is open to others (mode {mode:04o}); run `chmod 600 {path}`", path = path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to somebody who is neither root nor the daemon's user.
    #[error("{} belongs to user {owner}; it must be root's or the daemon's own", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
}

/// Refuses a file that anybody but its owner can read or change, or that belongs to a third party.
pub fn check_secret_file(path: &Path) -> Result<(), SecretFileError> {
    let path = path.to_owned();
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(source) => return Err(SecretFileError::Read { path, source }),
    };
    let mode = metadata.mode() & 0o7777;
    let owner = metadata.uid();
    if !metadata.is_file() {
        Err(SecretFileError::NotAFile { path })
    } else if mode & 0o077 != 0 {
        Err(SecretFileError::Exposed { path, mode })
    } else if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
        Err(SecretFileError::Owner { path, owner })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::{SecretFileError, check_secret_file};

    #[test]
    fn only_a_file_closed_to_others_holds_a_secret() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("node.creds");
        assert!(matches!(
            check_secret_file(&path),
            Err(SecretFileError::Read { .. })
        ));
        fs::write(&path, "x").unwrap();
        for (mode, closed) in [
            (0o600, true),
            (0o400, true),
            (0o640, false),
            (0o604, false),
            (0o660, false),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match check_secret_file(&path) {
                Ok(()) => assert!(closed, "{mode:o}"),
                Err(SecretFileError::Exposed { mode: told, .. }) => {
                    assert!(!closed, "{mode:o}");
                    assert_eq!(told, mode);
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(matches!(
            check_secret_file(scratch.path()),
            Err(SecretFileError::NotAFile { .. })
        ));
    }
}
