//! The `source` of a `file`: which of its places is there, what it is, and what follows from that.

use std::path::{Path, PathBuf};

use muster_system::{FileKind, Metadata};

use super::LIMIT;
use super::compare::Compare;
use crate::error::EngineError;
use crate::plan::State;
use crate::providers::{names, paths};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::Cx;

/// Under these names a state carries what was found out about the source. No property is called so.
const KIND: &str = "source: kind";
const SUM: &str = "source: checksum";
const TARGET: &str = "source: target";
const OWNER: &str = "source: owner";
const GROUP: &str = "source: group";
const MODE: &str = "source: mode";

/// A source that is there.
pub(super) struct Source {
    /// Where on this machine.
    pub(super) path: PathBuf,
    /// What it is; with `links => follow`, what is at the end of its links.
    pub(super) metadata: Metadata,
}

/// The first of the resource's sources that exists.
pub(super) fn first(cx: &Cx<'_>, resource: &Resource) -> Result<Source, EngineError> {
    for source in resource.list("source") {
        if let Some(found) = locate(cx, resource, source)? {
            return Ok(found);
        }
    }
    let places = resource.list("source").join(", ");
    let problem =
        format!("Could not retrieve information from source(s) {places}: nothing is there");
    Err(EngineError::failed(resource, problem))
}

/// One source; `None` when nothing is there.
pub(super) fn locate(
    cx: &Cx<'_>,
    resource: &Resource,
    source: &str,
) -> Result<Option<Source>, EngineError> {
    let looking = || EngineError::during(resource, format!("looking at the source {source}"));
    let path = if source.starts_with("puppet:") {
        let Some(sources) = cx.sources else {
            let problem = format!(
                "the source {source} is on a Puppet server, and this run has none to ask; use a path of this machine or `content`"
            );
            return Err(EngineError::failed(resource, problem));
        };
        let failed = |problem| {
            let problem = format!("Could not retrieve the source {source}: {problem}");
            EngineError::failed(resource, problem)
        };
        match sources.locate(source).map_err(failed)? {
            Some(path) => path,
            None => return Ok(None),
        }
    } else {
        PathBuf::from(source)
    };
    let follow = resource.text("links") == Some("follow");
    let metadata = if follow {
        paths::follow(cx.system, &path)
    } else {
        cx.system.metadata(&path)
    };
    Ok(metadata
        .map_err(looking())?
        .map(|metadata| Source { path, metadata }))
}

/// Puts what the source is into the state, where the resource has one and takes more than its content from it.
pub(super) fn describe(
    cx: &Cx<'_>,
    resource: &Resource,
    values: &mut Values,
) -> Result<(), EngineError> {
    if resource.get("source").is_none() || resource.get("checksum_value").is_some() {
        return Ok(());
    }
    if resource.text("ensure") == Some("absent") {
        return Ok(());
    }
    let source = first(cx, resource)?;
    let reading = || {
        EngineError::during(
            resource,
            format!("reading the source {}", source.path.display()),
        )
    };
    let mut put =
        |name: &str, value: String| drop(values.insert(name.to_owned(), Value::Text(value)));
    match source.metadata.kind {
        FileKind::File => {
            put(KIND, "file".to_owned());
            let sum =
                Compare::of(resource).sum(&source.metadata, || cx.system.read(&source.path, LIMIT));
            put(SUM, sum.map_err(reading())?);
        }
        FileKind::Directory => put(KIND, "directory".to_owned()),
        FileKind::Link => {
            let target = cx.system.read_link(&source.path).map_err(reading())?;
            put(KIND, "link".to_owned());
            put(TARGET, target.to_string_lossy().into_owned());
        }
        FileKind::Other => {
            let problem = format!(
                "the source {} is no file, directory or link",
                source.path.display()
            );
            return Err(EngineError::failed(resource, problem));
        }
    }
    if resource
        .text("source_permissions")
        .is_some_and(|word| word != "ignore")
    {
        let found = &source.metadata;
        put(OWNER, names::user_name(cx, found.uid).map_err(reading())?);
        put(GROUP, names::group_name(cx, found.gid).map_err(reading())?);
        put(MODE, format!("{:04o}", found.mode));
    }
    Ok(())
}

/// The checksum of the source.
pub(super) fn sum(state: &State) -> Option<&Value> {
    state.get(SUM)
}

/// What follows from the source for the resource: what is to be there, and whose it is where nobody says.
pub(super) fn complete(resource: &mut Resource, state: &State) {
    let Some(kind) = state.get(KIND) else {
        return;
    };
    if resource.text("ensure") != Some("absent") {
        resource.values.insert("ensure".to_owned(), kind.clone());
        if let Some(target) = state.get(TARGET) {
            resource.values.insert("target".to_owned(), target.clone());
        }
    }
    let creating = state.is_absent();
    let use_it = match resource.text("source_permissions") {
        Some("use") => true,
        Some("use_when_creating") => creating,
        _ => false,
    };
    if use_it {
        for (hidden, name) in [(OWNER, "owner"), (GROUP, "group"), (MODE, "mode")] {
            if let Some(value) = state.get(hidden) {
                resource
                    .values
                    .entry(name.to_owned())
                    .or_insert_with(|| value.clone());
            }
        }
    }
}

/// The content of the first source that is there, for writing it.
pub(super) fn read(cx: &Cx<'_>, resource: &Resource) -> Result<Vec<u8>, EngineError> {
    let source = first(cx, resource)?;
    let path: &Path = &source.path;
    let reading = EngineError::during(resource, format!("reading the source {}", path.display()));
    cx.system.read(path, LIMIT).map_err(reading)
}
