//! The same static catalog, applied by the machine's Puppet and by the engine: the same files, and the same messages of the same resources.
//!
//! `puppet apply` has no server, and reads the contents from the paths in the metadata.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_engine::ResourceEngine;
use muster_engine::catalog::Catalog;
use muster_engine::run::{RunOptions, apply_catalog};
use muster_system::real::RealSystem;
use muster_system::{Command, StateDir, System};
use serde_json::{Value as Json, json};

use super::fixture::{digits, listing, with};
use crate::puppet::skip_without_puppet;

const PREFIX: &str = "puppet:///modules/web/files";
/// Replaces the directory that the catalog changes, in what is compared.
const TARGET: &str = "/target";
/// The directories of an isolated Puppet.
const SETTINGS: [&str; 7] =
    ["confdir", "codedir", "vardir", "rundir", "logdir", "publicdir", "ssldir"];

/// The messages of a run, and the files that it left.
type AppliedCatalog = (Vec<String>, BTreeMap<String, String>);

/// Sources, and a directory for each of the two to change.
struct TwoTargets {
    home: tempfile::TempDir,
    system: Arc<dyn System>,
}

impl TwoTargets {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let targets = Self { home, system: Arc::new(RealSystem::new("/".into())) };
        for (path, mode, text) in [
            ("from/plain", 0o600, "plain"),
            ("from/tree/a", 0o644, "a"),
            ("from/tree/sub/b", 0o750, "b"),
            ("from/other/a", 0o644, "another a"),
            ("from/other/c", 0o644, "c"),
        ] {
            targets.write(path, mode, text);
            targets.write(&format!("contents/{}", digits(text)), 0o600, text);
        }
        symlink("sub/b", targets.path("from/tree/link")).unwrap();
        targets.write(&format!("contents/{}", digits("as compiled")), 0o600, "altered");
        for target in ["puppet", "engine"] {
            for name in ["replaced", "kept", "creating", "used", "gone", "altered", "remote/own"] {
                targets.write(&format!("{target}/{name}"), 0o644, "before");
            }
            for name in ["tree/a", "tree/extra", "tree/old/inner", "tree/sub"] {
                targets.write(&format!("{target}/{name}"), 0o644, "before");
            }
        }
        targets
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn write(&self, path: &str, mode: u32, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The metadata of a source, as a compiler with its files in `from` writes it.
    fn entry(&self, directory: &str, relative_path: Option<&str>) -> Json {
        let root = self.path("from").join(directory);
        let path = relative_path.map_or(root.clone(), |path| root.join(path));
        let found = std::fs::symlink_metadata(&path).unwrap();
        let entry = json!({
            "path": root, "relative_path": relative_path, "links": "manage", "owner": found.uid(),
            "group": found.gid(), "mode": found.mode() & 0o7777, "type": "directory",
            "destination": null, "content_uri": url(directory), "source": url(directory),
        });
        if found.is_symlink() {
            let destination = std::fs::read_link(&path).unwrap();
            return with(entry, &json!({"type": "link", "destination": destination}));
        }
        if found.is_dir() {
            return entry;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        with(entry, &json!({"type": "file", "checksum": checksum(&text)}))
    }

    fn tree(&self, directory: &str, paths: &[&str]) -> Vec<Json> {
        let paths = [".".to_owned()].into_iter().chain(paths.iter().map(|path| (*path).to_owned()));
        paths.map(|path| self.entry(directory, Some(&path))).collect()
    }

    /// Files without `recurse`: name, source, parameters and metadata.
    fn plain_files(&self) -> Vec<(&'static str, &'static str, Json, Json)> {
        let plain = || self.entry("plain", None);
        let altered = with(plain(), &json!({"checksum": checksum("as compiled")}));
        let permissions = |word: &str| json!({"source_permissions": word});
        vec![
            ("new", "plain", json!({}), plain()),
            ("replaced", "plain", json!({"mode": "0640"}), plain()),
            ("kept", "plain", json!({"replace": false}), plain()),
            ("gone", "plain", json!({"ensure": "absent"}), plain()),
            ("altered", "plain", json!({}), altered),
            ("used", "plain", permissions("use"), plain()),
            ("creating", "plain", permissions("use_when_creating"), plain()),
            ("created", "plain", permissions("use_when_creating"), plain()),
            ("link", "tree/link", json!({}), self.entry("tree/link", None)),
            ("directory", "tree", json!({}), self.entry("tree", None)),
        ]
    }

    /// Directories with `recurse`: name, parameters, and the metadata of each source.
    fn directories(&self) -> Vec<(&'static str, Json, Json)> {
        let (tree, other) = (url("tree"), url("other"));
        let entries = self.tree("tree", &["a", "link", "sub", "sub/b"]);
        let whole = || json!({url("tree"): entries});
        let both = json!({url("tree"): entries, url("other"): self.tree("other", &["a", "c"])});
        let top = json!({url("tree"): self.tree("tree", &["a"])});
        let purge = json!({"source": tree, "recurse": true, "purge": true, "force": true});
        let all = json!({"source": [tree, other], "recurse": true, "sourceselect": "all"});
        let remote = json!({"source": tree, "recurse": "remote", "purge": true});
        let modes = json!({"source": tree, "recurse": true, "mode": "0640"});
        let permissions = json!({"source": tree, "recurse": true, "source_permissions": "use"});
        vec![
            ("tree", purge, whole()),
            ("all", all, both),
            ("remote", remote, top),
            ("modes", modes, whole()),
            ("permissions", permissions, whole()),
        ]
    }

    /// The catalog, with the files of one of the targets.
    fn catalog(&self, target: &str) -> Json {
        let title = |name: &str| self.path(target).join(name).display().to_string();
        let (mut metadata, mut recursive) = (json!({}), json!({}));
        let mut files = Vec::new();
        for (name, source, parameters, entry) in self.plain_files() {
            files.push((title(name), with(parameters, &json!({"source": url(source)}))));
            metadata[title(name)] = entry;
        }
        for (name, parameters, sources) in self.directories() {
            files.push((title(name), parameters));
            recursive[title(name)] = sources;
        }
        let resource = |(title, parameters)| {
            let parameters = with(parameters, &json!({"backup": false}));
            json!({"type": "File", "title": title, "kind": "compilable_type", "parameters": parameters})
        };
        json!({
            "name": "dev1", "version": 1, "environment": "production", "metadata": metadata,
            "recursive_metadata": recursive, "edges": [], "classes": [],
            "resources": files.into_iter().map(resource).collect::<Vec<_>>(),
        })
    }

    /// `None` if Puppet does not start.
    fn run_puppet(&self, arguments: &[String]) -> Option<String> {
        let mut command = Command::new(["puppet"]);
        command.argv.extend_from_slice(arguments);
        for (name, value) in [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("LC_ALL", "C.UTF-8")] {
            command.env.insert(name.to_owned(), value.to_owned());
        }
        let output = self.system.run_command(&command).ok()?;
        output.is_success().then(|| output.combined_text())
    }

    fn apply_with_puppet(&self) -> AppliedCatalog {
        let (catalog, log) = (self.path("catalog.json"), self.path("log.json"));
        std::fs::write(&catalog, self.catalog("puppet").to_string()).unwrap();
        let _ = std::fs::remove_file(&log);
        let path = |path: &Path| path.display().to_string();
        let mut arguments = vec!["apply".to_owned(), "--catalog".to_owned(), path(&catalog)];
        for setting in SETTINGS {
            arguments.extend([format!("--{setting}"), path(&self.path("settings").join(setting))]);
        }
        arguments.extend(["--certname", "dev1", "--logdest"].map(str::to_owned));
        arguments.push(path(&log));
        self.run_puppet(&arguments).unwrap();
        let text = |entry: &Json, key: &str| entry[key].as_str().unwrap().to_owned();
        let log = std::fs::read_to_string(&log).unwrap();
        // Puppet writes each message on a line of its own, and does not close the array.
        let entries = log.lines().filter(|line| line.starts_with('{')).map(|line| {
            let entry: Json = serde_json::from_str(line).unwrap();
            (text(&entry, "level"), text(&entry, "source"), text(&entry, "message"))
        });
        self.applied("puppet", entries)
    }

    fn apply_with_engine(&self) -> AppliedCatalog {
        let engine = ResourceEngine::new(Arc::clone(&self.system));
        let state = StateDir::open(&self.path("state")).unwrap();
        let text = self.catalog("engine").to_string();
        let catalog = Catalog::parse(text.as_bytes(), "dev1").unwrap();
        let content_directory = Some(self.path("contents"));
        let options = RunOptions { content_directory, ..RunOptions::default() };
        let report = apply_catalog(&engine, &catalog, &state, &options, &mut |_| {}).unwrap();
        let entries = report
            .logs
            .into_iter()
            .map(|entry| (entry.level.as_str().to_owned(), entry.source, entry.message));
        self.applied("engine", entries)
    }

    /// Keeps what both programs write about files; the reason of a failure is a text of its own.
    fn applied(
        &self,
        target: &str,
        entries: impl Iterator<Item = (String, String, String)>,
    ) -> AppliedCatalog {
        let path = self.path(target);
        let is_compared = |(level, source, _): &(String, String, String)| {
            matches!(level.as_str(), "notice" | "err") && source.starts_with("/File[")
        };
        let messages = entries.filter(is_compared).map(|(level, source, message)| {
            let message = message.split_once(" failed: ").map_or(&*message, |(start, _)| start);
            format!("{level} {source}: {message}").replace(path.to_str().unwrap(), TARGET)
        });
        (messages.collect(), listing(&path))
    }
}

fn url(name: &str) -> String {
    format!("{PREFIX}/{name}")
}

fn checksum(text: &str) -> Json {
    json!({"type": "sha256", "value": format!("{{sha256}}{}", digits(text))})
}

#[test]
fn puppet_makes_the_same_changes() {
    let targets = TwoTargets::new();
    if targets.run_puppet(&["--version".to_owned()]).is_none() {
        skip_without_puppet("`puppet --version` does not start");
        return;
    }
    let (puppet, engine) = (targets.apply_with_puppet(), targets.apply_with_engine());
    assert!(puppet.0.len() >= 30, "Puppet changed less than expected: {puppet:#?}");
    assert_eq!(puppet, engine);
    let (again, engine) = (targets.apply_with_puppet(), targets.apply_with_engine());
    assert_eq!(again.0.len(), 1, "only the altered file is not in sync: {again:#?}");
    assert_eq!(again, engine);
}
