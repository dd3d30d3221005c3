//! Reads the state of a `file`. Minimizes system calls, because each run reads thousands of files,
//! and most are in sync.

use std::path::{Path, PathBuf};

use muster_system::{FileEntryKind, FileMetadata, SystemResult};

use super::compare::ContentComparison;
use super::{MAX_CONTENT_BYTES, SCHEMA, source};
use crate::error::{DescribeOperation as _, Result};
use crate::plan::ResourceState;
use crate::providers::digest::ChecksumKind;
use crate::providers::{account_names, paths};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::ResourceContext;

/// The effective path: with `links => follow`, after following links.
pub(super) fn resolve_path(cx: &ResourceContext<'_>, resource: &Resource) -> SystemResult<PathBuf> {
    let path = Path::new(&resource.name);
    // For `absent` and `link` the link itself is meant.
    let manages_link = matches!(resource.get_text("ensure"), Some("absent" | "link"));
    if resource.get_text("links") == Some("follow") && !manages_link {
        return paths::resolve_links(cx.system, path).map(|(target, _)| target);
    }
    Ok(path.to_owned())
}

/// The current state.
pub(super) fn read_state(cx: &ResourceContext<'_>, resource: &Resource) -> Result<ResourceState> {
    let doing = format_args!("inspecting {}", resource.name);
    let path = resolve_path(cx, resource).during(resource, doing)?;
    let mut state = match cx.system.metadata(&path).during(resource, doing)? {
        Some(found) => ResourceState {
            values: found_values(cx, resource, &path, &found).during(resource, doing)?,
        },
        None => ResourceState::absent(),
    };
    source::describe_source(cx, resource, &mut state.values)?;
    Ok(state)
}

fn found_values(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    path: &Path,
    found: &FileMetadata,
) -> SystemResult<ResourceValues> {
    let read_all = !resource.is_managed(&SCHEMA) && resource.get("source").is_none();
    let mut values = ResourceValues::from([
        ("ensure".to_owned(), ResourceValue::from(kind_word(found.kind))),
        ("mode".to_owned(), ResourceValue::Text(format!("{:04o}", found.mode))),
    ]);
    let from_source = resource.get_text("source_permissions").is_some_and(|word| word == "use");
    if read_all || from_source || resource.get("owner").is_some() {
        let owner = found_owner(cx, resource.get_text("owner"), found.uid)?;
        values.insert("owner".to_owned(), ResourceValue::Text(owner));
    }
    if read_all || from_source || resource.get("group").is_some() {
        let group = found_group(cx, resource.get_text("group"), found.gid)?;
        values.insert("group".to_owned(), ResourceValue::Text(group));
    }
    if found.kind == FileEntryKind::Link {
        let target = cx.system.read_link(path)?;
        let target = ResourceValue::Text(target.to_string_lossy().into_owned());
        values.insert("target".to_owned(), target);
    }
    let needs_checksum = resource.get("content").or(resource.get("source")).is_some()
        && resource.get_text("ensure") != Some("absent");
    if found.kind == FileEntryKind::File
        && (needs_checksum || (read_all && found.size <= MAX_CONTENT_BYTES))
    {
        let sum = ContentComparison::from_resource(resource)
            .file_checksum(found, || cx.system.read_file(path, MAX_CONTENT_BYTES))?;
        // With an explicit checksum, a source is compared by that kind and digits only.
        let (name, sum) = match sum.split_once('}') {
            Some((_, digits)) if is_by_value(resource) => ("checksum_value", digits.to_owned()),
            _ => ("content", sum),
        };
        values.insert(name.to_owned(), ResourceValue::Text(sum));
    }
    Ok(values)
}

/// Whether the checksum of the source was given.
pub(super) fn is_by_value(resource: &Resource) -> bool {
    resource.get("checksum_value").is_some() && resource.get("source").is_some()
}

/// The current owner: as the resource writes it if equivalent, otherwise by name.
fn found_owner(
    cx: &ResourceContext<'_>,
    desired: Option<&str>,
    found: u32,
) -> SystemResult<String> {
    match desired {
        Some(desired) if account_names::resolve_uid(cx, desired)? == Some(found) => {
            Ok(desired.to_owned())
        }
        _ => account_names::user_name(cx, found),
    }
}

/// The current group, in the same way.
fn found_group(
    cx: &ResourceContext<'_>,
    desired: Option<&str>,
    found: u32,
) -> SystemResult<String> {
    match desired {
        Some(desired) if account_names::resolve_gid(cx, desired)? == Some(found) => {
            Ok(desired.to_owned())
        }
        _ => account_names::group_name(cx, found),
    }
}

fn kind_word(kind: FileEntryKind) -> &'static str {
    match kind {
        FileEntryKind::File => "file",
        FileEntryKind::Directory => "directory",
        FileEntryKind::Link => "link",
        FileEntryKind::Other => "other",
    }
}

/// The checksum that the written content must have, if one was given.
pub(super) fn required_checksum(resource: &Resource) -> Option<(ChecksumKind, &str)> {
    let digest = ChecksumKind::from_name(resource.get_text("checksum").unwrap_or("sha256"))?;
    Some((digest, resource.get_text("checksum_value")?))
}
