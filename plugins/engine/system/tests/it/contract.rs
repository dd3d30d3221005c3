//! The contract of `System`, tested on `RealSystem` in a scratch root and on `FakeSystem`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_system::fake::FakeSystem;
use muster_system::real::RealSystem;
use muster_system::{Command, FileAttributes, FileEntryKind, System, SystemError};

const LIMIT: u64 = 1 << 20;

fn on_both(test: impl Fn(Arc<dyn System>)) {
    let scratch = tempfile::tempdir().unwrap();
    test(Arc::new(RealSystem::new(scratch.path().to_owned())));
    test(Arc::new(FakeSystem::new()));
}

fn mode(mode: u32) -> FileAttributes {
    FileAttributes { mode: Some(mode), ..FileAttributes::default() }
}

fn text(system: &dyn System, path: &str) -> String {
    String::from_utf8(system.read_file(Path::new(path), LIMIT).unwrap()).unwrap()
}

fn mode_of(system: &dyn System, path: &str) -> u32 {
    system.metadata(Path::new(path)).unwrap().unwrap().mode
}

#[test]
fn file_is_written_read_and_removed() {
    on_both(|system| {
        let path = Path::new("/motd");
        assert_eq!(system.metadata(path).unwrap(), None);
        assert!(system.read_file(path, LIMIT).unwrap_err().is_not_found());
        system.write_file(path, b"one", &FileAttributes::default()).unwrap();
        assert_eq!(mode_of(&*system, "/motd"), 0o644);
        system.write_file(path, b"two", &mode(0o600)).unwrap();
        system.write_file(path, b"three", &FileAttributes::default()).unwrap();
        assert_eq!(text(&*system, "/motd"), "three");
        let found = system.metadata(path).unwrap().unwrap();
        assert_eq!((found.kind, found.mode, found.size), (FileEntryKind::File, 0o600, 5));
        assert_eq!(system.read_dir(Path::new("/")).unwrap(), ["motd"]);
        system.remove_file(path).unwrap();
        system.remove_file(path).unwrap();
        assert_eq!(system.metadata(path).unwrap(), None);
    });
}

fn run<'p>(words: impl Iterator<Item = &'p Path>) {
    let command = Command::new(words.map(|word| word.to_str().unwrap()));
    let done = RealSystem::new("/".into()).run_command(&command).unwrap();
    assert!(done.is_success(), "{}", done.combined_text());
}

/// A file that is mounted over another one, until it is dropped.
struct BindMount(std::path::PathBuf);

impl BindMount {
    fn new(from: &Path, over: &Path) -> Self {
        run(["mount", "--bind"].map(Path::new).into_iter().chain([from, over]));
        Self(over.to_owned())
    }
}

impl Drop for BindMount {
    fn drop(&mut self) {
        run([Path::new("umount"), &self.0].into_iter());
    }
}

#[test]
fn mounted_file_is_overwritten_in_place() {
    use std::os::unix::fs::MetadataExt as _;
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (from, over) = (scratch.path().join("volume"), scratch.path().join("hosts"));
    std::fs::write(&from, "127.0.0.1 localhost # a long line\n").unwrap();
    std::fs::write(&over, "").unwrap();
    let system = RealSystem::new(scratch.path().to_owned());
    system.set_attributes(Path::new("/volume"), &mode(0o640)).unwrap();
    let _mount = BindMount::new(&from, &over);
    let before = std::fs::metadata(&over).unwrap();
    system.write_file(Path::new("/hosts"), b"::1 ip6\n", &FileAttributes::default()).unwrap();
    assert_eq!(text(&system, "/hosts"), "::1 ip6\n");
    assert_eq!(text(&system, "/volume"), "::1 ip6\n", "the mounted file itself is written");
    let after = std::fs::metadata(&over).unwrap();
    assert_eq!(
        (after.ino(), after.uid(), after.mode()),
        (before.ino(), before.uid(), before.mode())
    );
    system.write_file(Path::new("/hosts"), b"longer than before\n", &mode(0o600)).unwrap();
    assert_eq!(text(&system, "/volume"), "longer than before\n");
    assert_eq!(mode_of(&system, "/volume"), 0o600);
    let left = system.read_dir(Path::new("/")).unwrap();
    assert_eq!(left, ["hosts", "volume"], "no temporary file is left");
}

#[test]
fn file_above_the_limit_is_refused() {
    on_both(|system| {
        let path = Path::new("/large");
        system.write_file(path, b"12345", &FileAttributes::default()).unwrap();
        assert_eq!(system.read_file(path, 5).unwrap(), b"12345");
        let error = system.read_file(path, 4).unwrap_err();
        assert!(matches!(error, SystemError::TooLarge { size: 5, limit: 4, .. }), "{error}");
    });
}

#[test]
fn directories_list_names_in_order_and_are_removed_as_a_tree() {
    on_both(|system| {
        let dir = Path::new("/srv");
        system.create_dir(dir, &FileAttributes::default()).unwrap();
        assert_eq!(mode_of(&*system, "/srv"), 0o755);
        assert!(system.create_dir(dir, &FileAttributes::default()).is_err());
        assert!(system.create_dir(Path::new("/no/where"), &mode(0o700)).is_err());
        for name in ["/srv/b", "/srv/a", "/srv/ab"] {
            system.write_file(Path::new(name), b"", &FileAttributes::default()).unwrap();
        }
        assert_eq!(system.read_dir(dir).unwrap(), ["a", "ab", "b"]);
        assert!(system.remove_file(dir).is_err());
        assert!(system.write_file(dir, b"x", &FileAttributes::default()).is_err());
        system.remove_tree(dir).unwrap();
        system.remove_tree(dir).unwrap();
        assert_eq!(system.metadata(dir).unwrap(), None);
        assert!(system.remove_tree(Path::new("/")).is_err());
    });
}

#[test]
fn writing_through_a_link_keeps_the_link() {
    on_both(|system| {
        system.create_dir(Path::new("/data"), &FileAttributes::default()).unwrap();
        system.write_file(Path::new("/data/aliases"), b"old", &mode(0o640)).unwrap();
        system.create_symlink(Path::new("/data/aliases"), Path::new("/aliases")).unwrap();
        system.write_file(Path::new("/aliases"), b"new", &FileAttributes::default()).unwrap();
        assert_eq!(text(&*system, "/data/aliases"), "new");
        assert_eq!(mode_of(&*system, "/data/aliases"), 0o640);
        let link = system.metadata(Path::new("/aliases")).unwrap().unwrap();
        assert_eq!(link.kind, FileEntryKind::Link);
        assert_eq!(system.read_link(Path::new("/aliases")).unwrap(), Path::new("/data/aliases"));
    });
}

#[test]
fn link_replaces_a_link_and_is_removed_without_its_target() {
    on_both(|system| {
        system.create_dir(Path::new("/data"), &FileAttributes::default()).unwrap();
        system.write_file(Path::new("/data/kept"), b"x", &FileAttributes::default()).unwrap();
        system.create_symlink(Path::new("/nowhere"), Path::new("/link")).unwrap();
        system.create_symlink(Path::new("data"), Path::new("/link")).unwrap();
        assert_eq!(text(&*system, "/link/kept"), "x");
        system.remove_tree(Path::new("/link")).unwrap();
        assert_eq!(system.metadata(Path::new("/link")).unwrap(), None);
        assert_eq!(text(&*system, "/data/kept"), "x");
    });
}

#[test]
fn no_path_or_link_leaves_the_root() {
    on_both(|system| {
        for path in ["etc", "", "/..", "/a/../../etc/passwd"] {
            let error = system.read_file(Path::new(path), LIMIT).unwrap_err();
            assert!(matches!(error, SystemError::Path { .. }), "{path}: {error}");
            assert!(system.write_file(Path::new(path), b"", &FileAttributes::default()).is_err());
        }
        system.create_symlink(Path::new("../../../../../.."), Path::new("/up")).unwrap();
        system.create_symlink(Path::new("/"), Path::new("/root")).unwrap();
        system.write_file(Path::new("/up/one"), b"1", &FileAttributes::default()).unwrap();
        system.write_file(Path::new("/root/two"), b"2", &FileAttributes::default()).unwrap();
        assert_eq!(system.read_dir(Path::new("/")).unwrap(), ["one", "root", "two", "up"]);
        system.create_symlink(Path::new("/loop"), Path::new("/loop")).unwrap();
        assert!(system.read_file(Path::new("/loop"), LIMIT).is_err());
    });
}

#[test]
fn tree_is_renamed_but_not_onto_an_entry_of_another_kind() {
    on_both(|system| {
        system.create_dir(Path::new("/a"), &FileAttributes::default()).unwrap();
        system.write_file(Path::new("/a/x"), b"x", &FileAttributes::default()).unwrap();
        system.rename(Path::new("/a"), Path::new("/b")).unwrap();
        assert_eq!(text(&*system, "/b/x"), "x");
        assert_eq!(system.metadata(Path::new("/a")).unwrap(), None);
        system.write_file(Path::new("/f"), b"f", &FileAttributes::default()).unwrap();
        assert!(system.rename(Path::new("/f"), Path::new("/b")).is_err());
        assert!(system.rename(Path::new("/b"), Path::new("/f")).is_err());
        assert!(system.rename(Path::new("/b"), Path::new("/b/below")).is_err());
        system.rename(Path::new("/f"), Path::new("/b/x")).unwrap();
        assert_eq!(text(&*system, "/b/x"), "f");
    });
}

#[test]
fn given_attributes_are_set() {
    on_both(|system| {
        let path = Path::new("/x");
        system.write_file(path, b"x", &mode(0o600)).unwrap();
        let before = system.metadata(path).unwrap().unwrap();
        system.set_attributes(path, &mode(0o4755)).unwrap();
        let after = system.metadata(path).unwrap().unwrap();
        assert_eq!((after.mode, after.uid, after.gid), (0o4755, before.uid, before.gid));
        assert!(system.set_attributes(Path::new("/none"), &mode(0o644)).is_err());
    });
}

#[test]
fn replaced_file_has_another_inode() {
    on_both(|system| {
        let path = Path::new("/x");
        system.write_file(path, b"same", &mode(0o600)).unwrap();
        let before = system.metadata(path).unwrap().unwrap();
        assert_eq!(system.metadata(path).unwrap().unwrap(), before);
        system.write_file(path, b"size", &mode(0o600)).unwrap();
        let after = system.metadata(path).unwrap().unwrap();
        assert_ne!(after.inode, before.inode);
        assert!(after.changed >= before.changed && after.modified >= before.modified);
    });
}

#[test]
fn real_root_follows_links_as_a_scratch_root_does() {
    let scratch = tempfile::tempdir().unwrap();
    let inside = |path: &str| scratch.path().join(path);
    std::fs::create_dir(inside("real")).unwrap();
    std::fs::write(inside("real/x"), "text").unwrap();
    std::os::unix::fs::symlink("real", inside("link")).unwrap();
    std::os::unix::fs::symlink("link/x", inside("end")).unwrap();
    let system = RealSystem::new("/".into());
    assert_eq!(system.read_file(&inside("link/x"), LIMIT).unwrap(), b"text");
    assert_eq!(system.read_file(&inside("end"), LIMIT).unwrap(), b"text");
    assert_eq!(system.read_dir(&inside("link")).unwrap(), ["x"]);
    let kind = |path: &str| system.metadata(&inside(path)).unwrap().map(|found| found.kind);
    assert_eq!(kind("end"), Some(FileEntryKind::Link));
    assert_eq!(kind("link/x"), Some(FileEntryKind::File));
    assert_eq!(kind("link/none"), None);
    assert_eq!(system.read_link(&inside("link/../end")).unwrap(), Path::new("link/x"));
    for path in ["etc/passwd", "/../etc/passwd", ""] {
        assert!(system.metadata(Path::new(path)).is_err(), "{path}");
        assert!(system.read_file(Path::new(path), LIMIT).is_err(), "{path}");
    }
}

#[test]
fn lock_excludes_others_until_dropped() {
    on_both(|system| {
        let path = Path::new("/.pwd.lock");
        let held = system.lock_file(path, Duration::ZERO).unwrap();
        let error = system.lock_file(path, Duration::from_millis(30)).unwrap_err();
        assert!(matches!(error, SystemError::Locked { .. }), "{error}");
        assert_eq!(mode_of(&*system, "/.pwd.lock"), 0o600);
        drop(held);
        system.lock_file(path, Duration::ZERO).unwrap();
    });
}

#[test]
fn lock_admits_one_thread_at_a_time() {
    on_both(|system| {
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..16)
            .map(|_| {
                let (system, inside) = (Arc::clone(&system), Arc::clone(&inside));
                std::thread::spawn(move || {
                    let path = Path::new("/count");
                    let _held =
                        system.lock_file(Path::new("/lock"), Duration::from_secs(30)).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    let mut count = system.read_file(path, LIMIT).unwrap_or_default();
                    count.push(b'.');
                    system.write_file(path, &count, &FileAttributes::default()).unwrap();
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(text(&*system, "/count").len(), 16);
    });
}
