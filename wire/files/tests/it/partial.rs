//! Files that are written in parts: what an interrupted writer has left is continued, and only a complete file has its name.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use muster_files::PartialFile;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

#[test]
fn parts_of_an_interrupted_writer_are_read_by_the_next() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    let interrupted = PartialFile::open(&path).unwrap();
    interrupted.write_part(4, b"efgh").unwrap();
    drop(interrupted);
    assert!(!path.exists());
    let partial = PartialFile::open(&path).unwrap();
    assert_eq!(partial.read_part(4, 4).unwrap().as_deref(), Some(&b"efgh"[..]));
    assert_eq!(partial.read_part(0, 4).unwrap().as_deref(), Some(&[0; 4][..]), "a hole");
    assert_eq!(partial.read_part(6, 4).unwrap(), None, "it ends within the part");
    assert_eq!(partial.read_part(8, 1).unwrap(), None);
    partial.write_part(0, b"abcd").unwrap();
    partial.commit(7).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"abcdefg", "it is cut to its size");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(!PartialFile::path_of(&path).exists());
}

#[test]
fn discarded_part_is_removed_and_the_complete_file_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    fs::write(&path, "old").unwrap();
    let partial = PartialFile::open(&path).unwrap();
    partial.write_part(0, b"new").unwrap();
    partial.discard().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

#[test]
fn links_pipes_and_directories_are_not_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let victim = scratch.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    let [link, pipe, directory] =
        ["link", "pipe", "directory"].map(|name| scratch.path().join(name));
    symlink(&victim, PartialFile::path_of(&link)).unwrap();
    mkfifo(&PartialFile::path_of(&pipe), Mode::S_IRWXU).unwrap();
    fs::create_dir(PartialFile::path_of(&directory)).unwrap();
    for path in [link, pipe, directory] {
        assert!(PartialFile::open(&path).is_err(), "{}", path.display());
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
}
