//! What is at the path of a `file`. Asks the machine as little as the resource needs: thousands of files are looked at in
//! each run, and most of them are as desired.

use std::path::{Path, PathBuf};

use muster_system::{FileKind, Metadata, SystemError};

use super::compare::Compare;
use super::{LIMIT, SCHEMA, source};
use crate::error::EngineError;
use crate::plan::State;
use crate::providers::digest::Digest;
use crate::providers::{names, paths};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::Cx;

/// Where the file really is: with `links => follow`, at the end of the links.
pub(super) fn place(cx: &Cx<'_>, resource: &Resource) -> Result<PathBuf, SystemError> {
    let path = Path::new(&resource.name);
    // A link that must not be there, or must be there, is meant itself.
    let itself = matches!(resource.text("ensure"), Some("absent" | "link"));
    if resource.text("links") == Some("follow") && !itself {
        return paths::end(cx.system, path).map(|(end, _)| end);
    }
    Ok(path.to_owned())
}

/// The found state.
pub(super) fn read(cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
    let failing = || EngineError::during(resource, format!("looking at {}", resource.name));
    let place = place(cx, resource).map_err(failing())?;
    let mut state = match cx.system.metadata(&place).map_err(failing())? {
        Some(found) => State {
            values: found_values(cx, resource, &place, &found).map_err(failing())?,
        },
        None => State::absent(),
    };
    source::describe(cx, resource, &mut state.values)?;
    Ok(state)
}

fn found_values(
    cx: &Cx<'_>,
    resource: &Resource,
    place: &Path,
    found: &Metadata,
) -> Result<Values, SystemError> {
    let asked = !resource.is_managed(&SCHEMA) && resource.get("source").is_none();
    let mut values = Values::from([
        ("ensure".to_owned(), Value::from(kind_word(found.kind))),
        (
            "mode".to_owned(),
            Value::Text(format!("{:04o}", found.mode)),
        ),
    ]);
    let from_source = resource
        .text("source_permissions")
        .is_some_and(|word| word == "use");
    if asked || from_source || resource.get("owner").is_some() {
        let owner = owner(cx, resource.text("owner"), found.uid)?;
        values.insert("owner".to_owned(), Value::Text(owner));
    }
    if asked || from_source || resource.get("group").is_some() {
        let group = group(cx, resource.text("group"), found.gid)?;
        values.insert("group".to_owned(), Value::Text(group));
    }
    if found.kind == FileKind::Link {
        let target = cx.system.read_link(place)?;
        let target = Value::Text(target.to_string_lossy().into_owned());
        values.insert("target".to_owned(), target);
    }
    let wanted = resource.get("content").or(resource.get("source")).is_some()
        && resource.text("ensure") != Some("absent");
    if found.kind == FileKind::File && (wanted || (asked && found.size <= LIMIT)) {
        let sum = Compare::of(resource).sum(found, || cx.system.read(place, LIMIT))?;
        // With a checksum of its own, a source is compared by that and its digits alone.
        let (name, sum) = match sum.split_once('}') {
            Some((_, digits)) if is_by_value(resource) => ("checksum_value", digits.to_owned()),
            _ => ("content", sum),
        };
        values.insert(name.to_owned(), Value::Text(sum));
    }
    Ok(values)
}

/// Whether the checksum of the source was given.
pub(super) fn is_by_value(resource: &Resource) -> bool {
    resource.get("checksum_value").is_some() && resource.get("source").is_some()
}

/// The found owner: in the words of the resource where they mean the same, by name otherwise.
fn owner(cx: &Cx<'_>, desired: Option<&str>, found: u32) -> Result<String, SystemError> {
    match desired {
        Some(desired) if names::uid(cx, desired)? == Some(found) => Ok(desired.to_owned()),
        _ => names::user_name(cx, found),
    }
}

/// The same for the group.
fn group(cx: &Cx<'_>, desired: Option<&str>, found: u32) -> Result<String, SystemError> {
    match desired {
        Some(desired) if names::gid(cx, desired)? == Some(found) => Ok(desired.to_owned()),
        _ => names::group_name(cx, found),
    }
}

fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}

/// The checksum that the content must have after it was written, if one was named.
pub(super) fn demanded(resource: &Resource) -> Option<(Digest, &str)> {
    let digest = Digest::named(resource.text("checksum").unwrap_or("sha256"))?;
    Some((digest, resource.text("checksum_value")?))
}
