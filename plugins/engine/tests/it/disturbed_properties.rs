//! A change that disturbs another property of the same resource: the property is applied again in the same call. Names that are not UTF-8.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use muster_engine::catalog::Catalog;
use muster_engine::report::RunReport;
use muster_engine::run::{RunOptions, apply_catalog};
use muster_system::StateDir;
use serde_json::{Value as Json, json};

use crate::support::{Scratch, apply, converges, messages};

const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nrip:x:1000:1001::/home/rip:/bin/sh\n";

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn mode_and_owner(scratch: &Scratch, path: &str) -> (u32, u32) {
    let found = std::fs::symlink_metadata(scratch.path(path)).unwrap();
    (found.permissions().mode() & 0o7777, found.uid())
}

/// The kernel clears the set-user-ID bit when the owner of a file changes.
#[test]
fn new_owner_keeps_the_set_user_id_bit() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("/etc/passwd", PASSWD);
    for before in [0o4755, 0o755, 0o644] {
        scratch.write("/tmp/program", "x");
        let permissions = std::fs::Permissions::from_mode(before);
        std::fs::set_permissions(scratch.path("/tmp/program"), permissions).unwrap();
        let words = json!({"ensure": "file", "content": "x", "owner": "rip", "mode": "4755"});
        let events = converges(&scratch.engine, "file", "/tmp/program", words);
        assert_eq!(mode_and_owner(&scratch, "/tmp/program"), (0o4755, 1000));
        let changed = if before == 0o4755 { 1 } else { 2 };
        assert_eq!(events.len(), changed, "{:?}", messages(&events));
        std::fs::remove_file(scratch.path("/tmp/program")).unwrap();
    }
    let words = json!({"ensure": "file", "content": "x", "owner": "rip", "mode": "4755"});
    converges(&scratch.engine, "file", "/tmp/program", words);
    assert_eq!(mode_and_owner(&scratch, "/tmp/program"), (0o4755, 1000));
}

fn run(scratch: &Scratch, resources: &Json) -> RunReport {
    run_text(scratch, &resources.to_string())
}

fn run_text(scratch: &Scratch, catalog: &str) -> RunReport {
    let catalog = Catalog::parse(catalog.as_bytes(), "host").unwrap();
    let state = StateDir::open(&scratch.path("/var/engine")).unwrap();
    let options = RunOptions::default();
    apply_catalog(&scratch.engine, &catalog, &state, &options, &mut |_| {}).unwrap()
}

#[test]
fn new_owner_keeps_the_set_user_id_bit_in_a_catalog() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("/etc/passwd", PASSWD);
    scratch.write("/tmp/program", "x");
    let permissions = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(scratch.path("/tmp/program"), permissions).unwrap();
    let catalog =
        json!([{"type": "file", "title": "/tmp/program", "owner": "rip", "mode": "4755"}]);
    assert_eq!(run(&scratch, &catalog).exit_code(), 2);
    assert_eq!(mode_and_owner(&scratch, "/tmp/program"), (0o4755, 1000));
    assert_eq!(run(&scratch, &catalog).exit_code(), 0);
}

#[test]
fn names_that_are_not_utf8_are_managed_and_purged() {
    let scratch = Scratch::new();
    let name = OsStr::from_bytes(b"caf\xe9 \xff");
    let (kept, purged) = (scratch.path("/tmp/kept"), scratch.path("/tmp/purged"));
    for directory in [&kept, &purged] {
        std::fs::create_dir(directory).unwrap();
        std::fs::write(directory.join(name), "x").unwrap();
        std::fs::create_dir(directory.join(OsStr::from_bytes(b"\xc3"))).unwrap();
        std::fs::write(directory.join(OsStr::from_bytes(b"\xc3")).join("inner"), "x").unwrap();
    }
    let catalog = json!([
        {"type": "file", "title": "/tmp/kept", "ensure": "directory", "recurse": true, "mode": "0750"},
        {"type": "file", "title": "/tmp/purged", "ensure": "directory", "recurse": true, "purge": true, "force": true, "backup": false},
        {"type": "file", "title": "/tmp/copy", "ensure": "directory", "recurse": true, "source": "/tmp/kept"},
    ]);
    let report = run(&scratch, &catalog);
    assert_eq!((report.status, report.exit_code()), ("changed", 2));
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&kept.join(name)), 0o750);
    assert_eq!(std::fs::read_dir(&purged).unwrap().count(), 0);
    assert_eq!(std::fs::read(scratch.path("/tmp/copy").join(name)).unwrap(), b"x");
    assert_eq!(run(&scratch, &catalog).exit_code(), 0);
    let outcome = apply(&scratch.engine, "tidy", "/tmp/kept", json!({"recurse": true}));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(!kept.join(name).exists());
}

/// The exit code is that of the report's status.
#[test]
fn failed_generation_is_in_the_exit_code() {
    let scratch = Scratch::new();
    scratch.write("/tmp/many/a", "x");
    scratch.write("/tmp/many/b", "x");
    let catalog = json!([{"type": "file", "title": "/tmp/many", "ensure": "directory", "recurse": true, "max_files": 1}]);
    let report = run(&scratch, &catalog);
    assert_eq!((report.status, report.exit_code()), ("failed", 4));
}

/// In the short form, `params` sets attributes that have the name of a key.
#[test]
fn short_form_sets_attributes_with_the_names_of_its_keys() {
    let catalog = "[[resource]]\ntype = \"ssh_authorized_key\"\ntitle = \"me\"\nkey = \"AAAA\"\ntarget = \"/tmp/keys\"\n\
                   params.type = \"ssh-rsa\"\nparams.options = [\"no-pty\"]\n";
    let scratch = Scratch::new();
    assert_eq!(run_text(&scratch, catalog).status, "changed");
    assert_eq!(scratch.text("/tmp/keys"), "no-pty ssh-rsa AAAA me\n");
    for wrong in ["params = 1\n", "params.key = \"BBBB\"\n"] {
        let catalog = format!("{}{wrong}", catalog.split("params").next().unwrap());
        let error = Catalog::parse(catalog.as_bytes(), "host").unwrap_err().to_string();
        assert!(error.contains("params"), "{error}");
    }
}
