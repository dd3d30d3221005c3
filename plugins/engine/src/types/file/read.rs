//! Reads the state of a `file`. Minimizes system calls, because each run reads thousands of files,
//! and most are in sync.

use std::path::{Path, PathBuf};

use muster_system::{FileEntryKind, FileMetadata, SystemResult};

use super::compare::{ContentComparison, MAX_CONTENT_BYTES};
use super::schema::SCHEMA;
use super::source;
use crate::error::{DescribeOperation as _, Result};
use crate::plan::ResourceState;
use crate::providers::account_names::{self, IdLookup, NameLookup};
use crate::providers::digest::ChecksumKind;
use crate::providers::paths;
use crate::resource::{Resource, ResourceValues, name_values};
use crate::resource_type::{BoundResource, ResourceContext};

/// The effective path: with `links => follow`, after following links.
pub(super) fn resolve_path(resource: &BoundResource<'_>) -> SystemResult<PathBuf> {
    let path = Path::new(&resource.name);
    // For `absent` and `link` the link itself is meant.
    let manages_link = matches!(resource.get_text("ensure"), Some("absent" | "link"));
    if resource.get_text("links") == Some("follow") && !manages_link {
        return paths::resolve_links(resource.cx.system, path).map(|(target, _)| target);
    }
    Ok(path.to_owned())
}

pub(super) fn read_state(resource: &BoundResource<'_>) -> Result<ResourceState> {
    let doing = format_args!("inspecting {}", resource.name);
    let path = resolve_path(resource).during(resource, doing)?;
    let mut state = match resource.cx.system.metadata(&path).during(resource, doing)? {
        Some(found) => {
            ResourceState { values: found_values(resource, &path, &found).during(resource, doing)? }
        }
        None => ResourceState::absent(),
    };
    source::describe_source(resource, &mut state.values)?;
    Ok(state)
}

fn found_values(
    resource: &BoundResource<'_>,
    path: &Path,
    found: &FileMetadata,
) -> SystemResult<ResourceValues> {
    let cx = resource.cx;
    let read_all = !resource.is_managed(&SCHEMA) && resource.get("source").is_none();
    let mode = format!("{:04o}", found.mode);
    let mut values = name_values([("ensure", kind_word(found.kind).into()), ("mode", mode.into())]);
    let from_source = resource.get_text("source_permissions").is_some_and(|word| word == "use");
    let lookups: [(_, _, (IdLookup, NameLookup)); 2] = [
        ("owner", found.uid, (account_names::resolve_uid, account_names::user_name)),
        ("group", found.gid, (account_names::resolve_gid, account_names::group_name)),
    ];
    for (name, id, (resolve, name_of)) in lookups {
        if read_all || from_source || resource.get(name).is_some() {
            let account = found_account(cx, resource.get_text(name), id, resolve, name_of)?;
            values.insert(name.to_owned(), account.into());
        }
    }
    if found.kind == FileEntryKind::Link {
        let target = cx.system.read_link(path)?.to_string_lossy().into_owned();
        values.insert("target".to_owned(), target.into());
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
        values.insert(name.to_owned(), sum.into());
    }
    Ok(values)
}

/// Whether the checksum of the source was given.
pub(super) fn is_by_value(resource: &Resource) -> bool {
    resource.get("checksum_value").is_some() && resource.get("source").is_some()
}

/// The current owner or group: as the resource writes it if equivalent, otherwise by name.
fn found_account(
    cx: &ResourceContext<'_>,
    desired: Option<&str>,
    found: u32,
    resolve: IdLookup,
    name: NameLookup,
) -> SystemResult<String> {
    match desired {
        Some(desired) if resolve(cx, desired)? == Some(found) => Ok(desired.to_owned()),
        _ => name(cx, found),
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
