//! Tests of rendering and writing, on a directory that stands for a machine's root.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use muster_api::filter::state::NodeFacts;
use muster_api::system::real::RealSystem;
use muster_contract::motd::PromptStatus;
use muster_engine::types::motd_fragment::FragmentTarget;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

pub(crate) fn snapshot(facts: &Value, classes: &[&str], state: &Value) -> NodeSnapshot {
    let classes: Vec<String> = classes.iter().map(|class| (*class).to_owned()).collect();
    NodeSnapshot {
        identity: "db1.example.net".to_owned(),
        facts: Arc::new(NodeFacts::from_value(facts.clone()).unwrap()),
        classes: classes.into(),
        state: Some(Arc::new(NodeFacts::from_value(state.clone()).unwrap())),
    }
}

/// A machine with fragments, and a renderer for `/etc/motd` and `/etc/issue`.
struct MotdMachine {
    root: TempDir,
    system: RealSystem,
    renderer: MotdRenderer,
}

impl MotdMachine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/muster/motd.d")).unwrap();
        fs::create_dir_all(root.path().join("etc/muster/issue.d")).unwrap();
        fs::create_dir_all(root.path().join("state")).unwrap();
        let output = |path: &str, target| OutputOptions { path: path.into(), target };
        let options = MotdOptions {
            outputs: vec![
                output("/etc/motd", OutputTarget::Motd),
                output("/etc/issue", OutputTarget::Issue),
            ],
            prompt_cache: Some("/run/prompt.json".into()),
            ..MotdOptions::default()
        };
        fs::create_dir_all(root.path().join("run")).unwrap();
        Self {
            system: RealSystem::new(root.path().to_owned()),
            renderer: MotdRenderer::new(
                options,
                &root.path().join("state"),
                worker::RenderPlace::Here,
            ),
            root,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, content: &str) {
        fs::write(self.path(path), content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn refresh(&self, classes: &[&str]) -> MotdRefresh {
        let node = snapshot(&json!({"customer": "acme"}), classes, &json!({}));
        self.renderer.refresh(&self.system, &node)
    }
}

#[test]
fn a5_1_line_goes_with_its_file_or_its_class() {
    let machine = MotdMachine::new();
    machine.write("etc/muster/motd.d/01_header", "{{ facts.customer }}\n");
    machine.write(
        "etc/muster/motd.d/20_Apache Web Server",
        "{% if \"apache\" in classes %}\n    -- Apache Web Server\n{% endif %}\n",
    );
    machine.write("etc/muster/motd.d/30_Backup", "");
    assert_eq!(machine.refresh(&["apache"]).problems, [""; 0]);
    assert_eq!(machine.read("etc/motd"), "acme\n    -- Apache Web Server\n    -- Backup\n");
    machine.refresh(&[]);
    assert_eq!(machine.read("etc/motd"), "acme\n    -- Backup\n");
    fs::remove_file(machine.path("etc/muster/motd.d/30_Backup")).unwrap();
    machine.refresh(&["apache"]);
    assert_eq!(machine.read("etc/motd"), "acme\n    -- Apache Web Server\n");
}

#[test]
fn a5_2_unchanged_text_leaves_the_file_untouched() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let machine = MotdMachine::new();
    machine.write("etc/muster/motd.d/10_a", "");
    assert_eq!(machine.refresh(&[]).changed[0], Path::new("/etc/motd"));
    let written = fs::metadata(machine.path("etc/motd")).unwrap();
    assert_eq!(written.permissions().mode() & 0o7777, 0o644);
    assert!(machine.refresh(&[]).changed.is_empty());
    let unchanged = fs::metadata(machine.path("etc/motd")).unwrap();
    assert_eq!((written.ino(), written.mtime_nsec()), (unchanged.ino(), unchanged.mtime_nsec()));
    // A rename replaces the file: another inode, so that a reader sees the old text or the new one.
    machine.write("etc/muster/motd.d/11_b", "");
    machine.refresh(&[]);
    assert_ne!(fs::metadata(machine.path("etc/motd")).unwrap().ino(), written.ino());
    // What others changed is written again.
    machine.write("etc/motd", "other");
    assert_eq!(machine.refresh(&[]).changed, [Path::new("/etc/motd")]);
    let node = snapshot(&json!({"b": 1, "a": {"z": [1, 2], "y": null}}), &[], &json!({}));
    machine.write("etc/muster/motd.d/12_facts", "{{ facts | tojson }}");
    let texts =
        [(); 3].map(|()| machine.renderer.text(&machine.system, &node, FragmentTarget::Motd));
    assert!(texts[0] == texts[1] && texts[1] == texts[2]);
}

#[test]
fn a5_3_order_is_numeric_then_by_name_and_the_local_file_is_kept() {
    let machine = MotdMachine::new();
    for name in [
        "100_last",
        "9_first",
        "010_b",
        "10_a",
        "15_x",
        "16_after local",
        "x_none",
        "10_a~",
        ".10_h",
        "10_a.dpkg-old",
    ] {
        machine.write(&format!("etc/muster/motd.d/{name}"), &format!("{name}\n"));
    }
    machine.write("etc/motd.local", "{{ not a template }}\n");
    machine.write("etc/motd", "the administrator's text\n");
    machine.refresh(&[]);
    let lines =
        ["9_first", "10_a", "010_b", "15_x", "{{ not a template }}", "16_after local", "100_last"];
    assert_eq!(machine.read("etc/motd").lines().collect::<Vec<_>>(), lines);
    assert_eq!(machine.read("etc/motd.local"), "{{ not a template }}\n");
    // The file that was there before is kept once.
    machine.write("etc/muster/motd.d/99_more", "more\n");
    machine.refresh(&[]);
    assert_eq!(machine.read("etc/motd.before-muster"), "the administrator's text\n");
}

#[test]
fn outputs_that_are_no_files_and_large_fragments_are_reported() {
    let machine = MotdMachine::new();
    machine.write("etc/muster/motd.d/10_large", &"x".repeat(16 * 1024 + 1));
    machine.write("etc/muster/motd.d/11_a", "a");
    machine.write("etc/muster/motd.d/12_broken", "{% if %}");
    std::os::unix::fs::symlink("/etc/passwd", machine.path("etc/issue")).unwrap();
    machine.write("etc/muster/issue.d/10_a", "a");
    let problems = machine.refresh(&[]).problems.join("\n");
    for problem in [
        "10_large has 16385 bytes",
        "fragment `12_broken` is left out",
        "/etc/issue: it is not a regular file",
    ] {
        assert!(problems.contains(problem), "{problem}: {problems}");
    }
    assert_eq!(machine.read("etc/motd"), "a\n");
    // A machine without fragments gets no files.
    let empty = MotdMachine::new();
    assert_eq!(empty.refresh(&[]).changed, [Path::new("/run/prompt.json")]);
}

#[test]
fn prompt_file_is_rewritten_before_it_looks_abandoned() {
    let machine = MotdMachine::new();
    fs::create_dir_all(machine.path("etc/muster/prompt.d")).unwrap();
    machine.write("etc/muster/prompt.d/10_web", "");
    machine.refresh(&[]);
    let status: PromptStatus = serde_json::from_str(&machine.read("run/prompt.json")).unwrap();
    assert_eq!((status.segments[0].text.as_str(), status.roles), ("acme", vec!["web".to_owned()]));
    let age = |seconds| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        let file = fs::File::options().append(true).open(machine.path("run/prompt.json")).unwrap();
        file.set_modified(time).unwrap();
        machine.refresh(&[]).changed.len()
    };
    assert_eq!((age(500), age(700)), (0, 1));
}
