//! Static catalogs and the machines that they are applied to.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use muster_engine::catalog::Catalog;
use muster_engine::providers::digest::ChecksumKind;
use muster_engine::report::RunReport;
use muster_engine::resource::Resource;
use muster_engine::run::{RunOptions, apply_catalog};
use muster_system::StateDir;
use serde_json::{Value as Json, json};

use crate::support::Scratch;

/// The state directory of [`Node`], on the machine.
const STATE: &str = "/var/state";

/// A machine with a state directory below its root.
pub(super) struct Node {
    pub(super) scratch: Scratch,
    state: StateDir,
}

impl Node {
    pub(super) fn new() -> Self {
        let scratch = Scratch::new();
        let state = StateDir::open(&scratch.path(STATE)).unwrap();
        Self { scratch, state }
    }

    /// Puts a content where a run finds it.
    pub(super) fn store(&self, text: &str) {
        self.store_as(&digits(text), text);
    }

    pub(super) fn store_all<const N: usize>(&self, texts: [&str; N]) {
        for text in texts {
            self.store(text);
        }
    }

    pub(super) fn store_as(&self, name: &str, text: &str) {
        self.scratch.write(&format!("{STATE}/content/{name}"), text);
    }

    pub(super) fn run(&self, catalog: &Json) -> RunReport {
        self.run_with(catalog, &RunOptions::default())
    }

    pub(super) fn run_with(&self, catalog: &Json, options: &RunOptions) -> RunReport {
        let catalog = Catalog::parse(catalog.to_string().as_bytes(), "dev1").unwrap();
        apply_catalog(&self.scratch.engine, &catalog, &self.state, options, &mut |_| {}).unwrap()
    }

    /// The first resource of a catalog.
    pub(super) fn first_resource(&self, catalog: &Json) -> Resource {
        let catalog = Catalog::parse(catalog.to_string().as_bytes(), "dev1").unwrap();
        self.scratch.engine.check_catalog_resource(&catalog.entries[0]).unwrap()
    }

    pub(super) fn listing(&self, path: &str) -> BTreeMap<String, String> {
        listing(&self.scratch.path(path))
    }
}

/// `REFERENCE: MESSAGE` of each event.
pub(super) fn events(report: &RunReport) -> Vec<String> {
    let mut all = Vec::new();
    for status in &report.resource_statuses {
        let line = |message: &str| format!("{}: {message}", status.resource);
        all.extend(status.events.iter().map(|event| line(&event.message)));
    }
    all
}

/// The message of the only event, which is a failure.
pub(super) fn failure(report: &RunReport) -> String {
    assert_eq!((report.status, report.exit_code()), ("failed", 4));
    let [event] = events(report).try_into().unwrap();
    event
}

/// A catalog of files, each given by title and parameters.
pub(super) fn catalog<const N: usize>(
    files: [(&str, Json); N],
    metadata: &Json,
    recursive_metadata: &Json,
) -> Json {
    let resource = |(title, parameters)| json!({"type": "File", "title": title, "kind": "compilable_type", "parameters": parameters});
    json!({
        "name": "dev1", "version": "1", "environment": "production",
        "resources": files.into_iter().map(resource).collect::<Vec<_>>(),
        "metadata": metadata, "recursive_metadata": recursive_metadata,
    })
}

/// A catalog with one file and the metadata of its source.
pub(super) fn catalog_of(title: &str, parameters: Json, metadata: &Json) -> Json {
    catalog([(title, parameters)], &json!({title: metadata}), &json!({}))
}

/// A catalog with one directory and the entries of its sources.
pub(super) fn catalog_of_tree(title: &str, parameters: Json, sources: &Json) -> Json {
    catalog([(title, parameters)], &json!({}), &json!({title: sources}))
}

pub(super) fn digits(text: &str) -> String {
    ChecksumKind::Sha256.hex_checksum(text.as_bytes())
}

/// An entry as Muster stores it: the path is not one of this machine, and there is no owner.
fn entry(kind: &str) -> Json {
    json!({
        "path": "modules/web/files/x", "relative_path": null, "links": "manage", "owner": null,
        "group": null, "mode": 0o644, "type": kind, "destination": null,
        "content_uri": "puppet:///modules/web/files/x",
    })
}

/// The entry of a file with this content.
pub(super) fn file(text: &str) -> Json {
    let checksum = json!({"type": "sha256", "value": format!("{{sha256}}{}", digits(text))});
    with(entry("file"), &json!({"checksum": checksum}))
}

pub(super) fn directory() -> Json {
    entry("directory")
}

pub(super) fn link(destination: &str) -> Json {
    with(entry("link"), &json!({"destination": destination}))
}

/// The entry below a directory.
pub(super) fn at(path: &str, entry: Json) -> Json {
    with(entry, &json!({"relative_path": path}))
}

/// A copy with other values.
pub(super) fn with(mut entry: Json, values: &Json) -> Json {
    entry.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
    entry
}

/// What is below a directory: a line for each path.
pub(super) fn listing(directory: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    add_to_listing(directory, "", &mut all);
    all
}

fn add_to_listing(directory: &Path, prefix: &str, all: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_string_lossy());
        let found = std::fs::symlink_metadata(&path).unwrap();
        let mode = found.permissions().mode() & 0o7777;
        let line = if found.is_symlink() {
            format!("link to {}", std::fs::read_link(&path).unwrap().display())
        } else if found.is_dir() {
            add_to_listing(&path, &format!("{name}/"), all);
            format!("directory {mode:04o}")
        } else {
            format!("file {mode:04o} {:?}", std::fs::read_to_string(&path).unwrap())
        };
        all.insert(name, line);
    }
}
