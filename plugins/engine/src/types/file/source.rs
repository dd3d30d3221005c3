//! The `source` of a `file`: finds the first existing source, on the node or in a static catalog, and derives attributes from it.

use std::path::{Path, PathBuf};

use muster_system::{FileAttributes, FileEntryKind, FileMetadata};

use super::compare::{ContentComparison, MAX_CONTENT_BYTES};
use super::static_source;
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::ResourceState;
use crate::providers::account_names::{self, NameLookup};
use crate::providers::paths;
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::BoundResource;
use crate::static_files::{StaticFile, StaticFileKind};

/// State keys for data about the source. No property has these names.
const SOURCE_KIND_KEY: &str = "source: kind";
const SOURCE_CHECKSUM_KEY: &str = "source: checksum";
const SOURCE_TARGET_KEY: &str = "source: target";
const SOURCE_OWNER_KEY: &str = "source: owner";
const SOURCE_GROUP_KEY: &str = "source: group";
const SOURCE_MODE_KEY: &str = "source: mode";

/// What a resource may take over from its source.
struct SourceDescription {
    kind: &'static str,
    checksum: Option<String>,
    /// Where a link points.
    target: Option<String>,
    attributes: FileAttributes,
}

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
                "the source {source} is on a Puppet server, and the catalog has no metadata of it; compile a static catalog, or use a path on the node or `content`"
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
    let description = match static_source::static_file(resource) {
        Some(file) => describe_static_source(resource, file)?,
        None => describe_local_source(resource)?,
    };
    let mut put = |name: &str, value: Option<String>| {
        let value = value.map(ResourceValue::Text);
        values.extend(value.map(|value| (name.to_owned(), value)));
    };
    put(SOURCE_KIND_KEY, Some(description.kind.to_owned()));
    put(SOURCE_CHECKSUM_KEY, description.checksum);
    put(SOURCE_TARGET_KEY, description.target);
    if resource.get_text("source_permissions").is_some_and(|word| word != "ignore") {
        let FileAttributes { mode, uid, gid } = description.attributes;
        let doing = "looking up the owner of the source";
        let name = |id: Option<u32>, name_of: NameLookup| {
            id.map(|id| name_of(cx, id)).transpose().during(resource, doing)
        };
        put(SOURCE_OWNER_KEY, name(uid, account_names::user_name)?);
        put(SOURCE_GROUP_KEY, name(gid, account_names::group_name)?);
        put(SOURCE_MODE_KEY, mode.map(|mode| format!("{mode:04o}")));
    }
    Ok(())
}

fn describe_local_source(resource: &BoundResource<'_>) -> Result<SourceDescription> {
    let cx = resource.cx;
    let source = first_source(resource)?;
    let FileMetadata { kind, mode, uid, gid, .. } = source.metadata;
    let doing = format_args!("reading the source {}", source.path.display());
    let attributes = FileAttributes { mode: Some(mode), uid: Some(uid), gid: Some(gid) };
    let (mut checksum, mut target) = (None, None);
    let kind = match kind {
        FileEntryKind::File => {
            let sum = ContentComparison::from_resource(resource)
                .file_checksum(&source.metadata, || {
                    cx.system.read_file(&source.path, MAX_CONTENT_BYTES)
                });
            checksum = Some(sum.during(resource, doing)?);
            "file"
        }
        FileEntryKind::Directory => "directory",
        FileEntryKind::Link => {
            let path = cx.system.read_link(&source.path).during(resource, doing)?;
            target = Some(path.to_string_lossy().into_owned());
            "link"
        }
        FileEntryKind::Other => {
            let problem =
                format!("the source {} is not a file, directory or link", source.path.display());
            return Err(EngineError::failed(resource, problem));
        }
    };
    Ok(SourceDescription { kind, checksum, target, attributes })
}

fn describe_static_source(resource: &Resource, file: &StaticFile) -> Result<SourceDescription> {
    static_source::check_permissions(resource, file)?;
    let (mut checksum, mut target) = (None, None);
    let kind = match &file.kind {
        StaticFileKind::File { checksum: sum } => {
            static_source::content_digits(resource, file, sum)?;
            checksum = Some(sum.clone());
            "file"
        }
        StaticFileKind::Directory => "directory",
        StaticFileKind::Link { destination } => {
            target = Some(destination.clone());
            "link"
        }
    };
    Ok(SourceDescription { kind, checksum, target, attributes: file.attributes })
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
    if let Some(file) = static_source::static_file(resource) {
        return static_source::read_static_content(resource, file);
    }
    let source = first_source(resource)?;
    let path: &Path = &source.path;
    resource
        .cx
        .system
        .read_file(path, MAX_CONTENT_BYTES)
        .during(resource, format_args!("reading the source {}", path.display()))
}
