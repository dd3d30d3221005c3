//! Attacks on the path policy by a local user: a directory that is replaced by a link during calls, hard links,
//! and checksums of files that are not public.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_api::wire::status::ReplyReason;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use super::Machine;

/// Exchanges two names atomically until `stop` is set; returns the number of exchanges.
fn exchange(one: &Path, other: &Path, stop: &AtomicBool) -> usize {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
        count += 1;
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_replaced_by_a_link_during_a_call_is_not_followed() {
    replace_directory_during(300).await;
}

/// Run by `make test-all`.
mod long {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn directory_replaced_by_a_link_during_three_thousand_calls_is_not_followed() {
        super::replace_directory_during(3000).await;
    }
}

/// Replaces a directory by a link and back as fast as possible during this many rounds of calls.
async fn replace_directory_during(rounds: usize) {
    let machine = Machine::new();
    let at = |path: &str| machine.root.path().join(path);
    fs::create_dir_all(at("srv/app/dir/sub")).unwrap();
    fs::create_dir_all(at("outside/sub")).unwrap();
    fs::write(at("srv/app/dir/file"), "inside").unwrap();
    fs::write(at("outside/file"), "outside").unwrap();
    fs::write(at("outside/sub/kept"), "outside").unwrap();
    // The kernel resolves this link to a path outside the policy; resolved inside the root, its target does not exist.
    symlink(at("outside"), at("srv/app/swapped")).unwrap();
    let before = fs::metadata(at("outside/file")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (one, other, stop) = (at("srv/app/dir"), at("srv/app/swapped"), Arc::clone(&stop));
        std::thread::spawn(move || exchange(&one, &other, &stop))
    };
    let mut read = 0;
    for _ in 0..rounds {
        if let Ok(found) = machine.path("read", "/srv/app/dir/file").await {
            assert_eq!(found["text"], json!("inside"));
            read += 1;
        }
        if let Ok(found) = machine.path("status", "/srv/app/dir/file").await {
            assert_ne!(found["size"], json!("outside".len()));
        }
        let _ = machine.path("touch", "/srv/app/dir/file").await;
        let _ = machine.path("touch", "/srv/app/dir/new").await;
        let _ = machine.path("mkdir", "/srv/app/dir/made").await;
        let _ = machine.path("remove", "/srv/app/dir/new").await;
        let _ = machine.path("remove", "/srv/app/dir/made").await;
        let tree = json!({"path": "/srv/app/dir/sub", "recursive": true});
        let _ = machine.ask("remove", tree).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().unwrap() > 0 && read > 0);
    let after = fs::metadata(at("outside/file")).unwrap();
    assert_eq!(
        (before.mtime(), before.mtime_nsec(), before.ino()),
        (after.mtime(), after.mtime_nsec(), after.ino())
    );
    assert_eq!(fs::read_to_string(at("outside/sub/kept")).unwrap(), "outside");
    let mut names: Vec<_> =
        fs::read_dir(at("outside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "sub"]);
}

#[tokio::test]
async fn hard_links_to_private_files_are_not_read_and_none_is_written() {
    let machine = Machine::new();
    let at = |path: &str| machine.root.path().join(path);
    fs::write(at("outside"), "private").unwrap();
    fs::set_permissions(at("outside"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(at("outside"), at("srv/app/private")).unwrap();
    fs::hard_link(at("etc/shadow"), at("srv/app/shadow")).unwrap();
    fs::hard_link(at("srv/app/log"), at("srv/app/second")).unwrap();
    for (action, path) in [
        ("read", "/srv/app/private"),
        ("touch", "/srv/app/private"),
        // World-readable in this test, and denied because it is the same file as a denied one.
        ("read", "/srv/app/shadow"),
        ("status", "/srv/app/shadow"),
        ("touch", "/srv/app/second"),
    ] {
        let error = machine.path(action, path).await.unwrap_err();
        let denied = matches!(error.reason, Some(ReplyReason::Denied { .. }));
        assert!(denied, "{action} {path}: {error:?}");
    }
    let public = machine.path("read", "/srv/app/second").await.unwrap();
    assert_eq!(public["size"], json!(14));
}

#[tokio::test]
async fn files_that_are_not_world_readable_have_no_checksum() {
    let machine = Machine::new();
    let at = |path: &str| machine.root.path().join(path);
    let mode = |path: &str, mode| {
        fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let sums = async |path: &str| {
        let found = machine.path("status", path).await.unwrap();
        (found["md5"].clone(), found["sha256"].clone())
    };
    assert_ne!(sums("/srv/app/log").await, (Value::Null, Value::Null));
    mode("srv/app/log", 0o640);
    assert_eq!(sums("/srv/app/log").await, (Value::Null, Value::Null));
    mode("srv/app/log", 0o644);
    mode("srv/app", 0o700);
    assert_eq!(sums("/srv/app/log").await, (Value::Null, Value::Null));
}
