//! `file`: a file, directory or symbolic link: that it is there, what is in it, whose it is.
//!
//! Manages one path. Recursing and purging need the resources of a whole catalog, and are refused.

mod change;

use std::fmt::Write as _;
use std::path::Path;

use muster_system::{FileKind, Metadata};
use sha2::{Digest, Sha256};

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::names;
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType};
use crate::schema::{Attribute, Kind, Schema};

/// Longest file whose content is managed, in bytes.
const LIMIT: u64 = 64 * 1024 * 1024;
/// Under this name a state carries the checksum of the source.
const SOURCE_SUM: &str = "checksum of the source";

static SCHEMA: Schema = Schema {
    type_name: "file",
    doc: "A file, directory or symbolic link.",
    namevar: "path",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::WordOr(&["present", "absent", "file", "directory", "link"]),
            "What is there; a path means a link to it.",
        ),
        Attribute::property("content", Kind::Text, "What is in the file."),
        Attribute::property("target", Kind::Text, "Where the link points."),
        Attribute::property("owner", Kind::Text, "Whose it is, by name or number."),
        Attribute::property("group", Kind::Text, "Its group, by name or number."),
        Attribute::property(
            "mode",
            Kind::Mode,
            "Permission bits, octal; a directory gets `x` wherever it has `r`.",
        ),
        Attribute::parameter("path", Kind::Path, "Where it is."),
        Attribute::parameter(
            "source",
            Kind::Text,
            "A path of the same machine whose content is copied.",
        ),
        Attribute::parameter(
            "force",
            Kind::Bool,
            "Whether directories may be removed with all that is in them.",
        )
        .or("false"),
        Attribute::parameter(
            "replace",
            Kind::Bool,
            "Whether a file that is there gets other content.",
        )
        .or("true"),
        Attribute::parameter(
            "backup",
            Kind::Text,
            "Suffix, such as `.bak`, of a copy of what is replaced; `false` makes none.",
        )
        .or("false"),
        Attribute::parameter(
            "checksum",
            Kind::Word(&["sha256"]),
            "How content is compared.",
        )
        .or("sha256"),
        Attribute::parameter(
            "validate_cmd",
            Kind::Text,
            "A command that must accept the new content; `%` is its path.",
        ),
        Attribute::parameter(
            "recurse",
            Kind::Word(&["false"]),
            "Only `false`: this is about one path.",
        )
        .or("false"),
        Attribute::parameter(
            "purge",
            Kind::Word(&["false"]),
            "Only `false`: this is about one path.",
        )
        .or("false"),
    ],
};

/// The type.
#[derive(Debug)]
pub struct File;

impl ResourceType for File {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        let given: Vec<&str> = ["content", "source", "target"]
            .into_iter()
            .filter(|name| resource.get(name).is_some())
            .collect();
        if let [first, second, ..] = given.as_slice() {
            let problem = format!("is given together with `{first}`; choose one");
            return Err(EngineError::invalid(&resource, second, problem));
        }
        check_ensure(&mut resource)?;
        check_source(&mut resource)?;
        check_backup(&mut resource)?;
        let ensure = resource.text("ensure");
        if let (Some("directory" | "link"), true) =
            (ensure, given.iter().any(|name| *name != "target"))
        {
            let problem = "is `directory` or `link`, which have no content of their own";
            return Err(EngineError::invalid(&resource, "ensure", problem));
        }
        if ensure == Some("link") && resource.get("target").is_none() {
            return Err(EngineError::Missing {
                resource: resource.reference(),
                name: "target",
            });
        }
        Ok(resource)
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let path = Path::new(&resource.name);
        let failing = || EngineError::during(resource, format!("looking at {}", resource.name));
        let Some(metadata) = cx.system.metadata(path).map_err(failing())? else {
            let mut state = State::absent();
            read_source(cx, resource, &mut state.values)?;
            return Ok(state);
        };
        let mut values =
            Values::from([("ensure".to_owned(), Value::from(kind_word(metadata.kind)))]);
        read_owner(cx, resource, &metadata, &mut values).map_err(failing())?;
        values.insert(
            "mode".to_owned(),
            Value::Text(format!("{:04o}", metadata.mode)),
        );
        if metadata.kind == FileKind::Link {
            let target = cx.system.read_link(path).map_err(failing())?;
            values.insert(
                "target".to_owned(),
                Value::Text(target.to_string_lossy().into_owned()),
            );
        }
        let wanted = resource.get("content").or(resource.get("source")).is_some();
        let asked = !resource.is_managed(&SCHEMA) && metadata.size <= LIMIT;
        if metadata.kind == FileKind::File && (wanted || asked) {
            let content = cx.system.read(path, LIMIT).map_err(failing())?;
            values.insert("content".to_owned(), Value::Text(checksum(&content)));
        }
        read_source(cx, resource, &mut values)?;
        Ok(State { values })
    }

    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        let resource = with_search_bits(resource, state);
        let mut wanted = resource.clone();
        let sum = resource
            .text("content")
            .map(|content| Value::Text(checksum(content.as_bytes())));
        let sum = sum.or_else(|| state.get(SOURCE_SUM).cloned());
        match &sum {
            Some(sum) => drop(wanted.values.insert("content".to_owned(), sum.clone())),
            None => drop(wanted.values.remove("content")),
        }
        let kept =
            resource.get("replace").and_then(Value::as_bool) == Some(false) && !state.is_absent();
        if kept && resource.text("ensure") != Some("absent") {
            for name in ["ensure", "content", "target"] {
                wanted.values.remove(name);
            }
        }
        if state.get("ensure").and_then(Value::as_text) == Some("link") {
            // The bits of a link mean nothing and cannot be set.
            wanted.values.remove("mode");
        }
        let mut plan = Plan::compare(&SCHEMA, &wanted, state);
        // What a new file is made of says more than that it is there; Puppet puts it so whatever was there before.
        let made = |change: &&mut Change| {
            change.property == "ensure" && matches!(change.to.as_text(), Some("file" | "present"))
        };
        if let (Some(change), Some(sum)) = (plan.changes.iter_mut().find(made), &sum) {
            change.message = format!("defined content as '{sum}'");
        }
        Plan { resource, ..plan }
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        change::apply(cx, plan, change)
    }

    /// Puppet lists no files either: there is no end to them.
    fn instances(&self, _: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        Ok(Vec::new())
    }
}

/// A path as `ensure` is a link to it; content makes a file, and a target a link, without being told.
fn check_ensure(resource: &mut Resource) -> Result<(), EngineError> {
    let ensure = resource.text("ensure").map(str::to_owned);
    match ensure.as_deref() {
        Some("present" | "absent" | "file" | "directory" | "link") => {}
        Some(path) if path.starts_with('/') => {
            resource
                .values
                .insert("ensure".to_owned(), Value::from("link"));
            resource
                .values
                .insert("target".to_owned(), Value::from(path));
        }
        Some(other) => {
            let problem =
                format!("is `{other}`, must be present, absent, file, directory, link or a path");
            return Err(EngineError::invalid(resource, "ensure", problem));
        }
        None if resource.get("target").is_some() => {
            resource
                .values
                .insert("ensure".to_owned(), Value::from("link"));
        }
        None if resource.get("content").or(resource.get("source")).is_some() => {
            resource
                .values
                .insert("ensure".to_owned(), Value::from("file"));
        }
        None => {}
    }
    Ok(())
}

fn check_source(resource: &mut Resource) -> Result<(), EngineError> {
    let Some(source) = resource.text("source") else {
        return Ok(());
    };
    let path = source.strip_prefix("file://").unwrap_or(source);
    let clean = crate::munge::path(path).ok_or_else(|| {
        let problem = format!(
            "is `{source}`, must be a path of the machine itself; other places are not supported"
        );
        EngineError::invalid(resource, "source", problem)
    })?;
    resource
        .values
        .insert("source".to_owned(), Value::Text(clean));
    Ok(())
}

fn check_backup(resource: &mut Resource) -> Result<(), EngineError> {
    match resource.text("backup") {
        None | Some("false") => Ok(()),
        Some("true") => {
            resource
                .values
                .insert("backup".to_owned(), Value::from(".puppet-bak"));
            Ok(())
        }
        Some(suffix) if suffix.starts_with('.') && !suffix.contains('/') => Ok(()),
        Some(other) => {
            let problem = format!(
                "is `{other}`, must be false or a suffix such as `.bak`; file buckets are not supported"
            );
            Err(EngineError::invalid(resource, "backup", problem))
        }
    }
}

/// Owner and group by name; in the words of the resource where they mean the same.
fn read_owner(
    cx: &Cx<'_>,
    resource: &Resource,
    metadata: &Metadata,
    values: &mut Values,
) -> Result<(), muster_system::SystemError> {
    let same = |desired: Option<&str>, id: Option<u32>, found: u32| {
        desired.filter(|_| id == Some(found)).map(str::to_owned)
    };
    let (owner, group) = (resource.text("owner"), resource.text("group"));
    let uid = owner.map_or(Ok(None), |owner| names::uid(cx.system, owner))?;
    let gid = group.map_or(Ok(None), |group| names::gid(cx.system, group))?;
    let owner = match same(owner, uid, metadata.uid) {
        Some(owner) => owner,
        None => names::user_name(cx.system, metadata.uid)?,
    };
    let group = match same(group, gid, metadata.gid) {
        Some(group) => group,
        None => names::group_name(cx.system, metadata.gid)?,
    };
    values.insert("owner".to_owned(), Value::Text(owner));
    values.insert("group".to_owned(), Value::Text(group));
    Ok(())
}

fn read_source(cx: &Cx<'_>, resource: &Resource, values: &mut Values) -> Result<(), EngineError> {
    if let Some(source) = resource.text("source") {
        let content = cx.system.read(Path::new(source), LIMIT);
        let content = content.map_err(EngineError::during(
            resource,
            format!("reading the source {source}"),
        ))?;
        values.insert(SOURCE_SUM.to_owned(), Value::Text(checksum(&content)));
    }
    Ok(())
}

/// A directory whose mode is given in numbers can be searched by whoever may read it.
fn with_search_bits(resource: &Resource, state: &State) -> Resource {
    let mut resource = resource.clone();
    let found = state.get("ensure").and_then(Value::as_text);
    let directory = match resource.text("ensure") {
        Some("directory") => true,
        Some("present") | None => found == Some("directory"),
        Some(_) => false,
    };
    let mode = resource
        .text("mode")
        .and_then(|mode| u32::from_str_radix(mode, 8).ok());
    if let (true, Some(mode)) = (directory, mode) {
        let mode = mode | ((mode & 0o444) >> 2);
        resource
            .values
            .insert("mode".to_owned(), Value::Text(format!("{mode:04o}")));
    }
    resource
}

fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}

/// `{sha256}` and 64 hexadecimal digits.
fn checksum(content: &[u8]) -> String {
    let mut text = "{sha256}".to_owned();
    for byte in Sha256::digest(content) {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
