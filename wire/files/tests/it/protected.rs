//! Which files are accepted that control a daemon: by mode and owner of the file, of every directory above, and of every link.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use muster_files::{ProtectedFileError, check_protected, check_protected_below, read_protected};

const LIMIT: u64 = 64;
/// A user that is neither root nor the user that runs the tests.
const THIRD_USER: u32 = 12_345;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Creates `a/b/x.policy` below this directory.
fn file(scratch: &Path) -> PathBuf {
    let directory = scratch.join("a/b");
    fs::create_dir_all(&directory).unwrap();
    for directory in [scratch.join("a"), directory.clone()] {
        mode(&directory, 0o755);
    }
    let path = directory.join("x.policy");
    fs::write(&path, "policy").unwrap();
    mode(&path, 0o644);
    path
}

/// The path that the error names.
fn path_of_error(error: ProtectedFileError) -> PathBuf {
    match error {
        ProtectedFileError::Writable { path, .. } | ProtectedFileError::Owner { path, .. } => path,
        other => panic!("{other}"),
    }
}

#[test]
fn modes_with_write_access_for_others_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = file(scratch.path());
    for bits in (0..=0o777_u32).map(|bits| bits | 0o400) {
        mode(&path, bits);
        match read_protected(&path, LIMIT) {
            Ok(text) => assert!(bits & 0o022 == 0 && text == "policy", "{bits:o}"),
            Err(error) => {
                assert_ne!(bits & 0o022, 0, "{bits:o}: {error}");
                let told = error.to_string();
                let advice = format!("run `chmod go-w {}`", path.display());
                assert!(told.contains(&advice), "{told}");
            }
        }
    }
    mode(&path, 0o644);
    assert!(matches!(read_protected(&path, 3), Err(ProtectedFileError::TooLarge { limit: 3, .. })));
}

#[test]
fn directories_above_are_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let path = file(scratch.path());
    for directory in ["a", "a/b"].map(|name| scratch.path().join(name)) {
        for (bits, closed) in [
            (0o755, true),
            (0o775, false),
            (0o757, false),
            (0o777, false),
            // In a sticky directory, others can create entries but cannot replace existing ones.
            (0o1777, true),
        ] {
            mode(&directory, bits);
            match check_protected(&path) {
                Ok(()) => assert!(closed, "{bits:o}"),
                Err(error) => {
                    assert!(!closed, "{bits:o}: {error}");
                    assert_eq!(path_of_error(error), directory);
                }
            }
        }
        mode(&directory, 0o755);
    }
    // A missing file is reported as missing.
    let missing = read_protected(&scratch.path().join("a/none"), LIMIT).unwrap_err();
    assert!(matches!(missing, ProtectedFileError::Read { source, .. }
        if source.kind() == std::io::ErrorKind::NotFound));
}

#[test]
fn links_are_followed_through_protected_directories_only() {
    let scratch = tempfile::tempdir().unwrap();
    let path = file(scratch.path());
    let open = scratch.path().join("open");
    fs::create_dir(&open).unwrap();
    // safe -> open/hop -> a/b: others could replace the middle link if `open` is writable.
    symlink("../a/b", open.join("hop")).unwrap();
    let safe = scratch.path().join("safe");
    symlink("open/hop", &safe).unwrap();
    let through = safe.join("x.policy");
    mode(&open, 0o755);
    assert_eq!(read_protected(&through, LIMIT).unwrap(), "policy");
    mode(&open, 0o777);
    assert_eq!(path_of_error(read_protected(&through, LIMIT).unwrap_err()), open);
    assert_eq!(read_protected(&path, LIMIT).unwrap(), "policy");

    let circle = scratch.path().join("circle");
    symlink("circle", &circle).unwrap();
    assert!(check_protected(&circle).is_err());
}

#[test]
fn files_of_a_third_user_are_refused() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "only root can give files away: run the tests as root"
    );
    let scratch = tempfile::tempdir().unwrap();
    let path = file(scratch.path());
    let link = scratch.path().join("link");
    symlink(&path, &link).unwrap();
    check_protected(&link).unwrap();
    for target in [path.clone(), scratch.path().join("a")] {
        chown(&target, Some(THIRD_USER), None).unwrap();
        let error = check_protected(&path).unwrap_err();
        assert!(error.to_string().contains("chown -h root"), "{error}");
        assert_eq!(path_of_error(error), target);
        chown(&target, Some(0), None).unwrap();
    }
    lchown(&link, Some(THIRD_USER), None).unwrap();
    assert_eq!(path_of_error(check_protected(&link).unwrap_err()), link);
}

#[test]
fn links_of_a_machine_below_a_root_stay_in_it() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("etc/app")).unwrap();
    fs::write(root.join("etc/app/config"), "x").unwrap();
    // An absolute target and one above the root mean the root of the machine.
    symlink("/etc/app/config", root.join("absolute")).unwrap();
    symlink("../../../../etc/app/config", root.join("above")).unwrap();
    for path in ["/absolute", "/above", "/etc/app/config", "/etc/../etc/app/config"] {
        let target = check_protected_below(&root, Path::new(path)).unwrap();
        assert_eq!(target, root.join("etc/app/config"), "{path}");
    }
    mode(&root.join("etc/app"), 0o777);
    for path in ["/absolute", "/above"] {
        let error = check_protected_below(&root, Path::new(path)).unwrap_err();
        assert_eq!(path_of_error(error), root.join("etc/app"), "{path}");
    }
    // Others could add files to a directory that has the sticky bit, although they cannot replace those in it.
    mode(&root.join("etc/app"), 0o1777);
    check_protected_below(&root, Path::new("/absolute")).unwrap();
    let error = check_protected_below(&root, Path::new("/etc/app")).unwrap_err();
    assert_eq!(path_of_error(error), root.join("etc/app"));
}
