//! Which files are believed to hold a secret: by mode, owner, kind and size.

#![expect(clippy::unwrap_used, reason = "tests end by panic")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use muster_secret::{SecretFileError, SecretOwner, check_secret, read_secret};
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

const LIMIT: u64 = 64;
const KEEPERS: [SecretOwner; 3] = [SecretOwner::Daemon, SecretOwner::Person, SecretOwner::Puppet];

fn file(directory: &Path, mode: u32) -> PathBuf {
    let path = directory.join("node.creds");
    fs::write(&path, "hush").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn every_mode_is_judged_by_who_else_could_read_or_change_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    for keeper in KEEPERS {
        for mode in (0..=0o777_u32).map(|mode| mode | 0o400) {
            let path = file(scratch.path(), mode);
            let others = mode & 0o077;
            let closed = matches!((keeper, others), (_, 0) | (SecretOwner::Puppet, 0o040));
            match read_secret(&path, keeper, LIMIT) {
                Ok(text) => {
                    assert!(closed, "{keeper:?} {mode:o}");
                    assert_eq!(*text, "hush");
                }
                Err(error @ SecretFileError::Exposed { .. }) => {
                    assert!(!closed, "{keeper:?} {mode:o}");
                    let told = error.to_string();
                    let advice = if keeper == SecretOwner::Puppet { 640 } else { 600 };
                    let shown = path.display();
                    assert!(told.contains(&format!("(mode {mode:04o})")), "{told}");
                    assert!(told.contains(&format!("`chmod {advice} {shown}`")), "{told}");
                    assert!(!told.contains("hush"), "{told}");
                }
                Err(other) => panic!("{keeper:?} {mode:o}: {other}"),
            }
            assert_eq!(check_secret(&path, keeper).is_ok(), closed);
        }
    }
}

#[test]
fn what_is_no_file_is_refused_and_nobody_waits_for_the_end_of_a_pipe() {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join("pipe");
    mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
    for (path, keeper) in [
        (scratch.path(), SecretOwner::Daemon),
        (scratch.path(), SecretOwner::Person),
        (&pipe, SecretOwner::Daemon),
        (&pipe, SecretOwner::Puppet),
        (Path::new("/dev/null"), SecretOwner::Person),
    ] {
        let refused = read_secret(path, keeper, LIMIT).unwrap_err();
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
fn more_than_a_secret_can_be_is_not_read() {
    let scratch = tempfile::tempdir().unwrap();
    let path = file(scratch.path(), 0o600);
    assert_eq!(*read_secret(&path, SecretOwner::Daemon, 4).unwrap(), "hush");
    let refused = read_secret(&path, SecretOwner::Daemon, 3).unwrap_err();
    assert!(matches!(refused, SecretFileError::TooLarge { limit: 3, .. }));
    // Endless, and of a size that is told as nothing.
    assert!(read_secret(Path::new("/dev/zero"), SecretOwner::Daemon, 3).is_err());
    assert!(
        read_secret(&scratch.path().join("none"), SecretOwner::Daemon, 3).unwrap_err().is_missing()
    );
}

#[test]
fn a_daemon_does_not_believe_what_a_third_user_owns() {
    assert!(geteuid().is_root(), "only root can give files away: run the tests as root");
    let scratch = tempfile::tempdir().unwrap();
    let path = file(scratch.path(), 0o600);
    chown(&path, Some(12_345), None).unwrap();
    let refused = read_secret(&path, SecretOwner::Daemon, LIMIT).unwrap_err();
    assert!(matches!(refused, SecretFileError::Owner { owner: 12_345, .. }));
    assert!(refused.to_string().contains("run `chown root"), "{refused}");
    assert_eq!(*read_secret(&path, SecretOwner::Person, LIMIT).unwrap(), "hush");
}
