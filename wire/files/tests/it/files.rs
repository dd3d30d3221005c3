//! Which files are accepted as secrets: by mode, owner, kind and size.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use muster_files::{SecretFileError, SecretOwner, check_secret, read_secret};
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

const LIMIT: u64 = 64;
const SECRET_OWNERS: [SecretOwner; 3] =
    [SecretOwner::Daemon, SecretOwner::Person, SecretOwner::Puppet];

fn file(directory: &Path, mode: u32) -> PathBuf {
    let path = directory.join("node.creds");
    fs::write(&path, "hush").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn modes_with_access_for_others_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    for owner in SECRET_OWNERS {
        for mode in (0..=0o777_u32).map(|mode| mode | 0o400) {
            let path = file(scratch.path(), mode);
            let others = mode & 0o077;
            let closed = matches!((owner, others), (_, 0) | (SecretOwner::Puppet, 0o040));
            match read_secret(&path, owner, LIMIT) {
                Ok(text) => {
                    assert!(closed, "{owner:?} {mode:o}");
                    assert_eq!(*text, "hush");
                }
                Err(error @ SecretFileError::Exposed { .. }) => {
                    assert!(!closed, "{owner:?} {mode:o}");
                    let told = error.to_string();
                    let advice = if owner == SecretOwner::Puppet { 640 } else { 600 };
                    let shown = path.display();
                    assert!(told.contains(&format!("(mode {mode:04o})")), "{told}");
                    assert!(told.contains(&format!("`chmod {advice} {shown}`")), "{told}");
                    assert!(!told.contains("hush"), "{told}");
                }
                Err(other) => panic!("{owner:?} {mode:o}: {other}"),
            }
            assert_eq!(check_secret(&path, owner).is_ok(), closed);
        }
    }
}

#[test]
fn non_files_are_refused_without_blocking_on_a_pipe() {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join("pipe");
    mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
    for (path, owner) in [
        (scratch.path(), SecretOwner::Daemon),
        (scratch.path(), SecretOwner::Person),
        (&pipe, SecretOwner::Daemon),
        (&pipe, SecretOwner::Puppet),
        (Path::new("/dev/null"), SecretOwner::Person),
    ] {
        let refused = read_secret(path, owner, LIMIT).unwrap_err();
        assert!(matches!(refused, SecretFileError::NotAFile { .. }), "{refused}");
    }
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, "hush").unwrap()
    });
    assert_eq!(*read_secret(&pipe, SecretOwner::Person, LIMIT).unwrap(), "hush");
    writer.join().unwrap();
}

#[test]
fn oversized_secret_is_not_read() {
    let scratch = tempfile::tempdir().unwrap();
    let path = file(scratch.path(), 0o600);
    assert_eq!(*read_secret(&path, SecretOwner::Daemon, 4).unwrap(), "hush");
    let refused = read_secret(&path, SecretOwner::Daemon, 3).unwrap_err();
    assert!(matches!(refused, SecretFileError::TooLarge { limit: 3, .. }));
    // Endless, with a reported size of 0.
    assert!(read_secret(Path::new("/dev/zero"), SecretOwner::Daemon, 3).is_err());
    assert!(
        read_secret(&scratch.path().join("none"), SecretOwner::Daemon, 3).unwrap_err().is_missing()
    );
}

#[test]
fn daemon_refuses_a_secret_of_a_third_user() {
    assert!(geteuid().is_root(), "only root can give files away: run the tests as root");
    let scratch = tempfile::tempdir().unwrap();
    let path = file(scratch.path(), 0o600);
    chown(&path, Some(12_345), None).unwrap();
    let refused = read_secret(&path, SecretOwner::Daemon, LIMIT).unwrap_err();
    assert!(matches!(refused, SecretFileError::Owner { owner: 12_345, .. }));
    assert!(refused.to_string().contains("run `chown root"), "{refused}");
    assert_eq!(*read_secret(&path, SecretOwner::Person, LIMIT).unwrap(), "hush");
}
