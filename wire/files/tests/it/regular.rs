//! Which files are read in directories that other users can change.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use muster_files::read_regular_file;
use nix::sys::stat::Mode;
use nix::unistd::{Uid, mkfifo};

const LIMIT: u64 = 64;
/// Users that are neither root nor the user that runs the tests.
const USER: u32 = 12_345;
const OTHER_USER: u32 = 12_346;

/// Makes a link that belongs to the user.
fn link(target: impl AsRef<Path>, path: &Path) {
    symlink(target, path).unwrap();
    lchown(path, Some(USER), None).unwrap();
}

fn read(path: &Path) -> Result<String, io::ErrorKind> {
    let bytes = read_regular_file(path, LIMIT).map_err(|error| error.kind())?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn regular_files_are_read_up_to_the_limit() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("x");
    assert_eq!(read(&path), Err(io::ErrorKind::NotFound));
    for length in [0, 1, 64] {
        fs::write(&path, "a".repeat(length)).unwrap();
        assert_eq!(read(&path).unwrap().len(), length);
    }
    fs::write(&path, "a".repeat(65)).unwrap();
    assert_eq!(read(&path), Err(io::ErrorKind::FileTooLarge));
    assert_eq!(read(&path.join("below")), Err(io::ErrorKind::NotADirectory));
    assert!(read(Path::new("/proc/self/comm")).is_ok(), "a file without a size");
    let relative = Path::new("/").join("..").join(path.strip_prefix("/").unwrap());
    assert_eq!(read(&relative), Err(io::ErrorKind::FileTooLarge));
}

#[test]
fn pipes_sockets_devices_and_directories_are_not_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
    let _listener = UnixListener::bind(path("socket")).unwrap();
    symlink("/dev/zero", path("device")).unwrap();
    symlink("/dev/null", path("nothing")).unwrap();
    symlink(".", path("directory")).unwrap();
    for name in ["pipe", "socket", "device", "nothing", "directory"] {
        assert_eq!(read(&path(name)), Err(io::ErrorKind::InvalidInput), "{name}");
    }
}

#[test]
fn link_of_a_user_leads_only_to_files_of_that_user() {
    assert!(Uid::effective().is_root(), "only root can give files away");
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    fs::create_dir(path("d")).unwrap();
    fs::write(path("d/x"), "text").unwrap();
    // Links of the process's own user are followed, relative and absolute ones.
    symlink("d/x", path("own")).unwrap();
    symlink(path("own"), path("chain")).unwrap();
    symlink("../own", path("d/up")).unwrap();
    for name in ["own", "chain", "d/up"] {
        assert_eq!(read(&path(name)).as_deref(), Ok("text"), "{name}");
    }
    link("d/x", &path("file"));
    link("d", &path("directory"));
    link("own", &path("to_link"));
    link(scratch.path(), &path("absolute"));
    let names = ["file", "directory/x", "to_link", "absolute/d/x", "absolute/own"];
    for owner in [None, Some(OTHER_USER)] {
        chown(path("d/x"), owner, None).unwrap();
        for name in names {
            assert_eq!(read(&path(name)), Err(io::ErrorKind::PermissionDenied), "{name}");
        }
    }
    chown(path("d/x"), Some(USER), None).unwrap();
    for name in names {
        assert_eq!(read(&path(name)).as_deref(), Ok("text"), "{name}");
    }
    // Links of two users: no file belongs to both.
    symlink("to_link", path("mixed")).unwrap();
    lchown(path("mixed"), Some(OTHER_USER), None).unwrap();
    assert_eq!(read(&path("mixed")), Err(io::ErrorKind::PermissionDenied));
}

#[test]
fn loop_of_links_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    symlink("b", path("a")).unwrap();
    symlink("a", path("b")).unwrap();
    assert!(read(&path("a")).is_err());
    File::create(path("c")).unwrap();
    assert_eq!(read(&path("c")).as_deref(), Ok(""));
}
