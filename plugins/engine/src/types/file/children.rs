//! What a `file` with `recurse` brings with it: a resource for each entry below the directory, below its sources and below
//! its target. They inherit mode, owner and whatever else was said about the directory, but no relations: what depends
//! on the directory depends on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_system::FileKind;

use super::source;
use crate::error::EngineError;
use crate::providers::walk::{Entry, Walk};
use crate::resource::{Resource, Value};
use crate::resource_type::{Cx, Siblings};
use crate::schema::RELATIONS;

/// What is said about the directory and not about what is in it.
const OWN: [&str; 8] = [
    "ensure",
    "recurse",
    "recurselimit",
    "max_files",
    "target",
    "alias",
    "source",
    "checksum_value",
];
/// So many entries are worth a warning.
const MANY: usize = 1000;

/// A resource in the making, and why it is there.
struct Child {
    resource: Resource,
    /// What is found at its path, if it was found by looking there.
    found: Option<FileKind>,
    /// Whether a source or a target has it.
    wanted: bool,
}

/// Whether there is something to bring.
pub(super) fn recurses(resource: &Resource) -> bool {
    matches!(resource.text("recurse"), Some("true" | "remote"))
        && resource.text("ensure") != Some("absent")
}

/// All resources below the directory, sorted by path.
pub(super) fn generate(
    cx: &Cx<'_>,
    resource: &Resource,
    siblings: &dyn Siblings,
) -> Result<Vec<Resource>, EngineError> {
    let mut children = BTreeMap::new();
    if resource.text("recurse") == Some("true") {
        for entry in walk(cx, resource, Path::new(&resource.name))? {
            let child = Child {
                resource: child(resource, &entry.below),
                found: Some(entry.metadata.kind),
                wanted: false,
            };
            children.insert(entry.below, child);
        }
    }
    if let Some(target) = resource.text("target") {
        from_target(cx, resource, target, &mut children)?;
    } else if resource.get("source").is_some() {
        from_sources(cx, resource, &mut children)?;
    }
    let managed = Managed::below(resource, siblings);
    children.retain(|_, child| !managed.has(&child.resource.name));
    if resource.flag("purge") {
        purge(cx, resource, &mut children, &managed);
    }
    Ok(children.into_values().map(|child| child.resource).collect())
}

fn child(parent: &Resource, below: &Path) -> Resource {
    let path = Path::new(&parent.name).join(below);
    let path = path.to_string_lossy().into_owned();
    let mut values = parent.values.clone();
    values.retain(|name, _| !OWN.contains(&name.as_str()) && !RELATIONS.contains(&name.as_str()));
    values.insert("path".to_owned(), Value::from(path.clone()));
    Resource {
        type_name: parent.type_name.clone(),
        title: path.clone(),
        name: path,
        values,
    }
}

/// Everything below a directory of this machine, as far as the resource wants it.
fn walk(cx: &Cx<'_>, resource: &Resource, directory: &Path) -> Result<Vec<Entry>, EngineError> {
    let number = |name| resource.get(name).and_then(Value::as_int);
    let most = number("max_files").unwrap_or(0);
    let ignore: Vec<&str> = resource
        .list("ignore")
        .into_iter()
        .filter(|pattern| *pattern != "false")
        .collect();
    let walk = Walk {
        depth: number("recurselimit").and_then(|depth| usize::try_from(depth).ok()),
        ignore: &ignore,
        follow: resource.text("links") == Some("follow"),
        most: usize::try_from(most).ok().filter(|most| *most > 0),
    };
    let entries = walk
        .entries(cx.system, directory)
        .map_err(|problem| EngineError::failed(resource, problem.to_string()))?;
    if most == 0 && entries.len() > MANY {
        cx.say(format!(
            "The directory '{}' contains {} entries, which exceeds the default soft limit {MANY} and may cause excessive resource consumption and degraded performance. To remove this warning set a value for `max_files` parameter",
            directory.display(),
            entries.len()
        ));
    }
    Ok(entries)
}

/// Directories as such, and a link to everything else.
fn from_target(
    cx: &Cx<'_>,
    resource: &Resource,
    target: &str,
    children: &mut BTreeMap<PathBuf, Child>,
) -> Result<(), EngineError> {
    for entry in walk(cx, resource, Path::new(target))? {
        let place = Path::new(target).join(&entry.below);
        let child = children
            .entry(entry.below)
            .or_insert_with_key(|below| Child {
                resource: child(resource, below),
                found: None,
                wanted: true,
            });
        child.wanted = true;
        let values = &mut child.resource.values;
        if entry.metadata.kind == FileKind::Directory {
            values.insert("ensure".to_owned(), Value::from("directory"));
        } else {
            values.insert("ensure".to_owned(), Value::from("link"));
            let place = place.to_string_lossy().into_owned();
            values.insert("target".to_owned(), Value::Text(place));
        }
    }
    Ok(())
}

/// What is in the first source that is there, or in all of them; the earlier source has precedence.
fn from_sources(
    cx: &Cx<'_>,
    resource: &Resource,
    children: &mut BTreeMap<PathBuf, Child>,
) -> Result<(), EngineError> {
    let all = resource.text("sourceselect") == Some("all");
    for source in resource.list("source") {
        // What is not there is the affair of the directory itself.
        let Some(top) = source::locate(cx, resource, source)? else {
            continue;
        };
        if top.metadata.kind != FileKind::Directory {
            return Ok(());
        }
        for entry in walk(cx, resource, &top.path)? {
            let place = top.path.join(&entry.below).to_string_lossy().into_owned();
            let child = children
                .entry(entry.below)
                .or_insert_with_key(|below| Child {
                    resource: child(resource, below),
                    found: None,
                    wanted: false,
                });
            if !child.wanted {
                child.wanted = true;
                let source = Value::List(vec![place]);
                child.resource.values.insert("source".to_owned(), source);
            }
        }
        if !all {
            break;
        }
    }
    Ok(())
}

/// Says of everything that nobody wants that it must go. A directory only goes by force, and never with something in it
/// that the catalog has.
fn purge(
    cx: &Cx<'_>,
    resource: &Resource,
    children: &mut BTreeMap<PathBuf, Child>,
    managed: &Managed<'_>,
) {
    let mut gone: Option<PathBuf> = None;
    children.retain(|below, child| {
        // A directory takes with it what is in it.
        if gone.as_ref().is_some_and(|gone| below.starts_with(gone)) {
            return false;
        }
        if child.wanted {
            return true;
        }
        let directory = child.found == Some(FileKind::Directory);
        if directory && managed.has_below(&child.resource.name) {
            return true;
        }
        if directory && !resource.flag("force") {
            cx.say(format!(
                "Not removing directory {}; use 'force' to override",
                child.resource.name
            ));
            return false;
        }
        if directory {
            gone = Some(below.clone());
        }
        let absent = Value::from("absent");
        child.resource.values.insert("ensure".to_owned(), absent);
        true
    });
}

/// The files of the catalog that lie below the directory.
struct Managed<'a>(Vec<&'a Path>);

impl<'a> Managed<'a> {
    fn below(resource: &Resource, siblings: &'a dyn Siblings) -> Self {
        let files = siblings.of_type("file").into_iter();
        let paths = files.map(|file| Path::new(file.name.as_str()));
        let top = Path::new(&resource.name);
        Self(
            paths
                .filter(|path| *path != top && path.starts_with(top))
                .collect(),
        )
    }

    /// Whether this is one of them, or below one: then that one knows better.
    fn has(&self, path: &str) -> bool {
        self.0.iter().any(|own| Path::new(path).starts_with(own))
    }

    fn has_below(&self, path: &str) -> bool {
        self.0.iter().any(|own| own.starts_with(path))
    }
}
