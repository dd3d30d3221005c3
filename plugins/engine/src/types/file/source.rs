//! The `source` of a `file`: finds the first existing source and derives attributes from it.

use std::path::{Path, PathBuf};

use muster_system::{FileEntryKind, FileMetadata};

use super::compare::{ContentComparison, MAX_CONTENT_BYTES};
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::ResourceState;
use crate::providers::{account_names, paths};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::BoundResource;

/// State keys for data about the source. No property has these names.
const SOURCE_KIND_KEY: &str = "source: kind";
const SOURCE_CHECKSUM_KEY: &str = "source: checksum";
const SOURCE_TARGET_KEY: &str = "source: target";
const SOURCE_OWNER_KEY: &str = "source: owner";
const SOURCE_GROUP_KEY: &str = "source: group";
const SOURCE_MODE_KEY: &str = "source: mode";

pub(super) struct FileSource {
    pub(super) path: PathBuf,
    /// Its metadata; with `links => follow`, of the link's target.
    pub(super) metadata: FileMetadata,
}

/// The first existing source of the resource.
pub(super) fn first_source(resource: &BoundResource<'_>) -> Result<FileSource> {
    for source in resource.get_list("source") {
        if let Some(found) = locate_source(resource, source)? {
            return Ok(found);
        }
    }
    let sources = resource.get_list("source").join(", ");
    let problem =
        format!("Could not retrieve information from source(s) {sources}: nothing is there");
    Err(EngineError::failed(resource, problem))
}

/// Locates one source; `None` if it does not exist.
pub(super) fn locate_source(
    resource: &BoundResource<'_>,
    source: &str,
) -> Result<Option<FileSource>> {
    let cx = resource.cx;
    let doing = format_args!("inspecting the source {source}");
    let path = if source.starts_with("puppet:") {
        let Some(sources) = cx.sources else {
            let problem = format!(
                "the source {source} is on a Puppet server, and this run has no server; use a path on the node or `content`"
            );
            return Err(EngineError::failed(resource, problem));
        };
        let retrieval_error = |problem| {
            let problem = format!("Could not retrieve the source {source}: {problem}");
            EngineError::failed(resource, problem)
        };
        match sources.locate_file(source).map_err(retrieval_error)? {
            Some(path) => path,
            None => return Ok(None),
        }
    } else {
        PathBuf::from(source)
    };
    let follow = resource.get_text("links") == Some("follow");
    let metadata =
        if follow { paths::follow_links(cx.system, &path) } else { cx.system.metadata(&path) };
    Ok(metadata.during(resource, doing)?.map(|metadata| FileSource { path, metadata }))
}

/// Adds data about the source to the state, if the resource has one and derives more than its content from it.
pub(super) fn describe_source(
    resource: &BoundResource<'_>,
    values: &mut ResourceValues,
) -> Result<()> {
    let cx = resource.cx;
    if resource.get("source").is_none() || resource.get("checksum_value").is_some() {
        return Ok(());
    }
    if resource.get_text("ensure") == Some("absent") {
        return Ok(());
    }
    let source = first_source(resource)?;
    let doing = format_args!("reading the source {}", source.path.display());
    let mut put = |name: &str, value: String| {
        drop(values.insert(name.to_owned(), ResourceValue::Text(value)));
    };
    match source.metadata.kind {
        FileEntryKind::File => {
            put(SOURCE_KIND_KEY, "file".to_owned());
            let sum = ContentComparison::from_resource(resource)
                .file_checksum(&source.metadata, || {
                    cx.system.read_file(&source.path, MAX_CONTENT_BYTES)
                });
            put(SOURCE_CHECKSUM_KEY, sum.during(resource, doing)?);
        }
        FileEntryKind::Directory => put(SOURCE_KIND_KEY, "directory".to_owned()),
        FileEntryKind::Link => {
            let target = cx.system.read_link(&source.path).during(resource, doing)?;
            put(SOURCE_KIND_KEY, "link".to_owned());
            put(SOURCE_TARGET_KEY, target.to_string_lossy().into_owned());
        }
        FileEntryKind::Other => {
            let problem =
                format!("the source {} is not a file, directory or link", source.path.display());
            return Err(EngineError::failed(resource, problem));
        }
    }
    if resource.get_text("source_permissions").is_some_and(|word| word != "ignore") {
        let found = &source.metadata;
        put(SOURCE_OWNER_KEY, account_names::user_name(cx, found.uid).during(resource, doing)?);
        put(SOURCE_GROUP_KEY, account_names::group_name(cx, found.gid).during(resource, doing)?);
        put(SOURCE_MODE_KEY, format!("{:04o}", found.mode));
    }
    Ok(())
}

pub(super) fn source_checksum(state: &ResourceState) -> Option<&ResourceValue> {
    state.get(SOURCE_CHECKSUM_KEY)
}

/// Fills in `ensure` and `target` from the source, and, subject to `source_permissions`, owner, group and mode if not set.
pub(super) fn complete_from_source(resource: &mut Resource, state: &ResourceState) {
    let Some(kind) = state.get(SOURCE_KIND_KEY) else { return };
    if resource.get_text("ensure") != Some("absent") {
        resource.set_value("ensure", kind.clone());
        if let Some(target) = state.get(SOURCE_TARGET_KEY) {
            resource.set_value("target", target.clone());
        }
    }
    let creating = state.is_absent();
    let use_permissions = match resource.get_text("source_permissions") {
        Some("use") => true,
        Some("use_when_creating") => creating,
        _ => false,
    };
    if use_permissions {
        for (state_key, name) in
            [(SOURCE_OWNER_KEY, "owner"), (SOURCE_GROUP_KEY, "group"), (SOURCE_MODE_KEY, "mode")]
        {
            if let Some(value) = state.get(state_key) {
                resource.values.entry(name.to_owned()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// The content of the first existing source, for writing.
pub(super) fn read_content(resource: &BoundResource<'_>) -> Result<Vec<u8>> {
    let source = first_source(resource)?;
    let path: &Path = &source.path;
    resource
        .cx
        .system
        .read_file(path, MAX_CONTENT_BYTES)
        .during(resource, format_args!("reading the source {}", path.display()))
}
