//! The `source` of a `file` in a static catalog: the catalog describes it, and its content is in a directory of the node.
//!
//! Nothing is read until a content has to be written, and a content is used only if its SHA-256 is the one that the catalog names.

use muster_system::FileAttributes;
use muster_system::error::found_or_none;

use super::compare::MAX_CONTENT_BYTES;
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::providers::digest::{ChecksumKind, parse_checksum};
use crate::resource::Resource;
use crate::resource_type::BoundResource;
use crate::static_files::{StaticFile, StaticFileKind};

/// What the catalog says of the first existing source; `None` if it says nothing.
pub(super) fn static_file(resource: &Resource) -> Option<&StaticFile> {
    resource.static_sources.as_ref()?.first_file(&resource.get_list("source"))
}

/// The SHA-256 of a file's content. Fails for a checksum of another kind, because contents are found by their SHA-256.
pub(super) fn content_digits<'a>(
    resource: &Resource,
    file: &StaticFile,
    checksum: &'a str,
) -> Result<&'a str> {
    if let Some((ChecksumKind::Sha256, digits)) = parse_checksum(checksum) {
        return Ok(digits);
    }
    let source = source_text(resource, file);
    let problem = format!(
        "the catalog describes the source {source} by the checksum {checksum}, and contents are found by their SHA-256; remove `checksum` from the resource and compile again"
    );
    Err(EngineError::failed(resource, problem))
}

/// The content of the file, with the SHA-256 that the catalog names.
pub(super) fn read_static_content(
    resource: &BoundResource<'_>,
    file: &StaticFile,
) -> Result<Vec<u8>> {
    let source = source_text(resource, file);
    let StaticFileKind::File { checksum } = &file.kind else {
        let problem = format!("the source {source} is not a file, and has no content");
        return Err(EngineError::failed(resource, problem));
    };
    let digits = content_digits(resource, file, checksum)?;
    let path = resource.cx.content_directory.join(digits);
    let shown = path.display();
    let content = found_or_none(resource.cx.system.read_file(&path, MAX_CONTENT_BYTES)).during(
        resource,
        format_args!("reading the content of the source {source} with the SHA-256 {digits}"),
    )?;
    let Some(content) = content else {
        let problem = format!(
            "the content of the source {source} with the SHA-256 {digits} is not on this node; copy the file to {shown}, and apply the catalog again"
        );
        return Err(EngineError::failed(resource, problem));
    };
    let found = ChecksumKind::Sha256.hex_checksum(&content);
    if found != digits {
        let problem = format!(
            "the content of the source {source} with the SHA-256 {digits} was altered: {shown} has the SHA-256 {found}; remove it, copy the original there, and apply the catalog again"
        );
        return Err(EngineError::failed(resource, problem));
    }
    Ok(content)
}

/// Fails if the resource takes over a permission that the catalog does not have.
pub(super) fn check_permissions(resource: &Resource, file: &StaticFile) -> Result<()> {
    if resource.get_text("source_permissions").is_none_or(|word| word == "ignore") {
        return Ok(());
    }
    let FileAttributes { mode, uid, gid } = file.attributes;
    let is_missing =
        |(name, value): &(&str, Option<u32>)| value.is_none() && resource.get(name).is_none();
    let missing = [("owner", uid), ("group", gid), ("mode", mode)].into_iter().find(is_missing);
    missing.map_or(Ok(()), |(name, _)| {
        let source = source_text(resource, file);
        let problem = format!(
            "the catalog has no {name} of the source {source}, which `source_permissions` takes over; set `{name}`, or compile again"
        );
        Err(EngineError::failed(resource, problem))
    })
}

/// The URL of the source; a list of several, if the catalog does not say which one it is.
fn source_text(resource: &Resource, file: &StaticFile) -> String {
    file.source.clone().unwrap_or_else(|| resource.get_list("source").join(", "))
}
