//! What a `file` with `recurse` brings with it: a resource for each entry below the directory, below its sources and below
//! its target. They inherit mode, owner and whatever else was said about the directory, but no relations: what depends
//! on the directory depends on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_system::FileEntryKind;

use super::source;
use crate::error::EngineError;
use crate::providers::walk::{DirectoryWalk, DirectoryWalkEntry};
use crate::resource::{Resource, ResourceValue};
use crate::resource_type::{CatalogResources, ResourceContext};
use crate::schema::RELATION_METAPARAMETERS;

/// What is said about the directory and not about what is in it.
const UNINHERITED_ATTRIBUTES: [&str; 8] = [
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
const ENTRY_WARNING_LIMIT: usize = 1000;

/// A resource in the making, and why it is there.
struct ChildFile {
    resource: Resource,
    /// What is found at its path, if it was found by looking there.
    found: Option<FileEntryKind>,
    /// Whether a source or a target has it.
    wanted: bool,
}

/// Whether there is something to bring.
pub(super) fn is_recursive(resource: &Resource) -> bool {
    matches!(resource.get_text("recurse"), Some("true" | "remote"))
        && resource.get_text("ensure") != Some("absent")
}

/// All resources below the directory, sorted by path.
pub(super) fn generate_children(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    siblings: &dyn CatalogResources,
) -> Result<Vec<Resource>, EngineError> {
    let mut children = BTreeMap::new();
    if resource.get_text("recurse") == Some("true") {
        for entry in walk_directory(cx, resource, Path::new(&resource.name))? {
            let child = ChildFile {
                resource: child_resource(resource, &entry.below),
                found: Some(entry.metadata.kind),
                wanted: false,
            };
            children.insert(entry.below, child);
        }
    }
    if let Some(target) = resource.get_text("target") {
        add_target_children(cx, resource, target, &mut children)?;
    } else if resource.get("source").is_some() {
        add_source_children(cx, resource, &mut children)?;
    }
    let managed = ManagedPaths::collect_below(resource, siblings);
    children.retain(|_, child| !managed.covers_path(&child.resource.name));
    if resource.get_flag("purge") {
        mark_purged(cx, resource, &mut children, &managed);
    }
    Ok(children.into_values().map(|child| child.resource).collect())
}

fn child_resource(parent: &Resource, below: &Path) -> Resource {
    let path = Path::new(&parent.name).join(below);
    let path = path.to_string_lossy().into_owned();
    let mut values = parent.values.clone();
    values.retain(|name, _| {
        !UNINHERITED_ATTRIBUTES.contains(&name.as_str())
            && !RELATION_METAPARAMETERS.contains(&name.as_str())
    });
    values.insert("path".to_owned(), ResourceValue::from(path.clone()));
    Resource {
        type_name: parent.type_name.clone(),
        title: path.clone(),
        name: path,
        values,
    }
}

/// Everything below a directory of this machine, as far as the resource wants it.
fn walk_directory(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    directory: &Path,
) -> Result<Vec<DirectoryWalkEntry>, EngineError> {
    let number = |name| resource.get(name).and_then(ResourceValue::as_int);
    let most = number("max_files").unwrap_or(0);
    let ignore: Vec<&str> = resource
        .get_list("ignore")
        .into_iter()
        .filter(|pattern| *pattern != "false")
        .collect();
    let walk = DirectoryWalk {
        depth: number("recurselimit").and_then(|depth| usize::try_from(depth).ok()),
        ignore: &ignore,
        follow: resource.get_text("links") == Some("follow"),
        most: usize::try_from(most).ok().filter(|most| *most > 0),
    };
    let entries = walk
        .collect_entries(cx.system, directory)
        .map_err(|problem| EngineError::failed(resource, problem.to_string()))?;
    if most == 0 && entries.len() > ENTRY_WARNING_LIMIT {
        cx.log_line(format!(
            "The directory '{}' contains {} entries, which exceeds the default soft limit {ENTRY_WARNING_LIMIT} and may cause excessive resource consumption and degraded performance. To remove this warning set a value for `max_files` parameter",
            directory.display(),
            entries.len()
        ));
    }
    Ok(entries)
}

/// Directories as such, and a link to everything else.
fn add_target_children(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    target: &str,
    children: &mut BTreeMap<PathBuf, ChildFile>,
) -> Result<(), EngineError> {
    for entry in walk_directory(cx, resource, Path::new(target))? {
        let place = Path::new(target).join(&entry.below);
        let child = children
            .entry(entry.below)
            .or_insert_with_key(|below| ChildFile {
                resource: child_resource(resource, below),
                found: None,
                wanted: true,
            });
        child.wanted = true;
        let values = &mut child.resource.values;
        if entry.metadata.kind == FileEntryKind::Directory {
            values.insert("ensure".to_owned(), ResourceValue::from("directory"));
        } else {
            values.insert("ensure".to_owned(), ResourceValue::from("link"));
            let place = place.to_string_lossy().into_owned();
            values.insert("target".to_owned(), ResourceValue::Text(place));
        }
    }
    Ok(())
}

/// What is in the first source that is there, or in all of them; the earlier source has precedence.
fn add_source_children(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    children: &mut BTreeMap<PathBuf, ChildFile>,
) -> Result<(), EngineError> {
    let all = resource.get_text("sourceselect") == Some("all");
    for source in resource.get_list("source") {
        // What is not there is the affair of the directory itself.
        let Some(top) = source::locate_source(cx, resource, source)? else {
            continue;
        };
        if top.metadata.kind != FileEntryKind::Directory {
            return Ok(());
        }
        for entry in walk_directory(cx, resource, &top.path)? {
            let place = top.path.join(&entry.below).to_string_lossy().into_owned();
            let child = children
                .entry(entry.below)
                .or_insert_with_key(|below| ChildFile {
                    resource: child_resource(resource, below),
                    found: None,
                    wanted: false,
                });
            if !child.wanted {
                child.wanted = true;
                let source = ResourceValue::List(vec![place]);
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
fn mark_purged(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    children: &mut BTreeMap<PathBuf, ChildFile>,
    managed: &ManagedPaths<'_>,
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
        let directory = child.found == Some(FileEntryKind::Directory);
        if directory && managed.covers_below(&child.resource.name) {
            return true;
        }
        if directory && !resource.get_flag("force") {
            cx.log_line(format!(
                "Not removing directory {}; use 'force' to override",
                child.resource.name
            ));
            return false;
        }
        if directory {
            gone = Some(below.clone());
        }
        let absent = ResourceValue::from("absent");
        child.resource.values.insert("ensure".to_owned(), absent);
        true
    });
}

/// The files of the catalog that lie below the directory.
struct ManagedPaths<'a>(Vec<&'a Path>);

impl<'a> ManagedPaths<'a> {
    fn collect_below(resource: &Resource, siblings: &'a dyn CatalogResources) -> Self {
        let files = siblings.resources_of_type("file").into_iter();
        let paths = files.map(|file| Path::new(file.name.as_str()));
        let top = Path::new(&resource.name);
        Self(
            paths
                .filter(|path| *path != top && path.starts_with(top))
                .collect(),
        )
    }

    /// Whether this is one of them, or below one: then that one knows better.
    fn covers_path(&self, path: &str) -> bool {
        self.0.iter().any(|own| Path::new(path).starts_with(own))
    }

    fn covers_below(&self, path: &str) -> bool {
        self.0.iter().any(|own| own.starts_with(path))
    }
}
