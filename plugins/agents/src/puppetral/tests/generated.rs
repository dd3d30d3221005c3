//! Tests of resources that generate others: `tidy`, `file` with `recurse`, `resources` with `purge`. They are applied, planned and undone as a whole.

use std::path::Path;

use serde_json::{Value, json};

use super::{Machine, scratch};

fn machine(options: Value) -> (tempfile::TempDir, Machine) {
    let (directory, system) = scratch();
    for (path, content) in [("srv/a.log", "a\n"), ("srv/deep/b.log", "b\n"), ("srv/c.txt", "c\n")] {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    (directory, Machine::new(system, options))
}

fn exists(directory: &tempfile::TempDir, path: &str) -> bool {
    directory.path().join(path).exists()
}

fn newest_record(state: &Path) -> String {
    let names = std::fs::read_dir(state.join("undo")).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).max().unwrap()
}

#[tokio::test]
async fn tidy_removes_files_and_undo_restores_them() {
    let state = tempfile::tempdir().unwrap();
    let (directory, machine) = machine(json!({"state_dir": state.path()}));
    let input =
        json!({"type": "tidy", "name": "/srv", "recurse": "true", "matches": "*.log", "age": "0"});
    let plan = machine.ask("plan", input.clone()).await.unwrap();
    assert_eq!((&plan["changed"], plan["events"].as_array().unwrap().len()), (&json!(true), 2));
    assert!(exists(&directory, "srv/a.log"), "a plan removes nothing");
    let done = machine.converges(input).await;
    assert_eq!(done["events"].as_array().unwrap().len(), 2, "{done}");
    assert!(done["result"].as_str().unwrap().contains("File[/srv/a.log]: removed"), "{done}");
    assert!(!exists(&directory, "srv/a.log") && !exists(&directory, "srv/deep/b.log"));
    assert!(exists(&directory, "srv/c.txt"));
    let id = std::fs::read_dir(state.path().join("undo")).unwrap().count();
    assert_eq!(id, 1, "one request, one record");
    machine.ask("do", json!({"undo": newest_record(state.path())})).await.unwrap();
    assert_eq!(machine.text("/srv/a.log"), "a\n");
    assert_eq!(machine.text("/srv/deep/b.log"), "b\n");
}

#[tokio::test]
async fn file_with_recurse_sets_modes_and_copies_a_source() {
    let state = tempfile::tempdir().unwrap();
    let (directory, machine) = machine(json!({"state_dir": state.path()}));
    let mode = |path: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(directory.path().join(path)).unwrap().permissions().mode() & 0o777
    };
    let before = [mode("srv/a.log"), mode("srv/deep")];
    let input = json!({"type": "file", "name": "/srv", "recurse": "true", "mode": "0600"});
    machine.converges(input).await;
    assert_eq!(
        [mode("srv/a.log"), mode("srv/deep/b.log"), mode("srv/deep")],
        [0o600, 0o600, 0o700]
    );
    machine.ask("do", json!({"undo": newest_record(state.path())})).await.unwrap();
    assert_eq!([mode("srv/a.log"), mode("srv/deep")], before);
    let copy = json!({"type": "file", "name": "/tmp/copy", "ensure": "directory", "recurse": "true", "source": "/srv"});
    machine.converges(copy).await;
    assert_eq!(machine.text("/tmp/copy/deep/b.log"), "b\n");
    machine.ask("do", json!({"undo": newest_record(state.path())})).await.unwrap();
    assert!(!exists(&directory, "tmp/copy"));
}

#[tokio::test]
async fn resources_purge_removes_what_no_catalog_and_no_puppet_names() {
    let state = tempfile::tempdir().unwrap();
    let list = state.path().join("resources.txt");
    let (directory, machine) =
        machine(json!({"state_dir": state.path(), "resources_file": "/tmp/resources.txt"}));
    drop(list);
    std::fs::write(directory.path().join("tmp/resources.txt"), "host[localhost]\n").unwrap();
    machine.ask("do", json!({"type": "host", "name": "db1", "ip": "10.0.0.5"})).await.unwrap();
    let before = machine.text("/etc/hosts");
    let done =
        machine.converges(json!({"type": "resources", "name": "host", "purge": "true"})).await;
    assert_eq!(done["events"].as_array().unwrap().len(), 1, "{done}");
    assert_eq!(machine.text("/etc/hosts"), "# mine\n127.0.0.1\tlocalhost\n");
    machine.ask("do", json!({"undo": newest_record(state.path())})).await.unwrap();
    assert_eq!(machine.text("/etc/hosts"), before);
}

#[tokio::test]
async fn generated_resources_obey_the_policy_of_their_own_type() {
    let (directory, machine) = machine(json!({"allow_types": ["tidy", "resources"]}));
    let tidy = json!({"type": "tidy", "name": "/srv", "recurse": "true", "age": "0"});
    let error = machine.ask("do", tidy).await.unwrap_err();
    assert!(
        error.message.contains("does not allow changes to resources of type file"),
        "{error:?}"
    );
    let purge = json!({"type": "resources", "name": "user", "purge": "true"});
    let error = machine.ask("do", purge).await.unwrap_err();
    assert!(
        error.message.contains("does not allow changes to resources of type user"),
        "{error:?}"
    );
    assert!(exists(&directory, "srv/a.log") && machine.text("/etc/passwd").contains("rip"));
}
