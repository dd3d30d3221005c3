//! Makes the changes of a `file`. What is replaced is copied first where a backup is asked for.

use std::path::{Path, PathBuf};

use muster_system::{Attributes, Command, FileKind};

use super::LIMIT;
use crate::error::EngineError;
use crate::plan::{Change, Plan};
use crate::providers::{names, paths};
use crate::resource::Resource;
use crate::resource_type::Cx;

/// Makes one change.
pub(super) fn apply(cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
    let resource = &plan.resource;
    let path = Path::new(&resource.name);
    let failing = || EngineError::during(resource, format!("changing {}", resource.name));
    match (change.property.as_str(), change.to.as_text()) {
        ("ensure", Some("absent")) => clear(cx, resource, "absent"),
        ("ensure", Some("directory")) => {
            clear(cx, resource, "directory")?;
            has_parent(cx, resource)?;
            cx.system
                .create_dir(path, &attributes(cx, resource)?)
                .map_err(failing())
        }
        ("ensure", Some("link")) | ("target", _) => {
            clear(cx, resource, "link")?;
            has_parent(cx, resource)?;
            let target = resource.text("target").unwrap_or_default();
            cx.system
                .symlink(Path::new(target), path)
                .map_err(failing())?;
            let owner = Attributes {
                mode: None,
                ..attributes(cx, resource)?
            };
            cx.system.set_attributes(path, &owner).map_err(failing())
        }
        ("ensure" | "content", _) => write(cx, resource),
        _ => {
            let all = attributes(cx, resource)?;
            let one = match change.property.as_str() {
                "owner" => Attributes {
                    uid: all.uid,
                    ..Attributes::default()
                },
                "group" => Attributes {
                    gid: all.gid,
                    ..Attributes::default()
                },
                _ => Attributes {
                    mode: all.mode,
                    ..Attributes::default()
                },
            };
            cx.system.set_attributes(path, &one).map_err(failing())
        }
    }
}

/// Writes the desired content, or none, over whatever is there.
fn write(cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
    let path = Path::new(&resource.name);
    let content = content(cx, resource)?;
    has_parent(cx, resource)?;
    validate(cx, resource, &content)?;
    clear(cx, resource, "file")?;
    let attributes = attributes(cx, resource)?;
    let failing = EngineError::during(resource, format!("writing {}", resource.name));
    cx.system
        .write(path, &content, &attributes)
        .map_err(failing)
}

fn content(cx: &Cx<'_>, resource: &Resource) -> Result<Vec<u8>, EngineError> {
    match (resource.text("content"), resource.text("source")) {
        (Some(content), _) => Ok(content.as_bytes().to_vec()),
        (None, Some(source)) => {
            let failing = EngineError::during(resource, format!("reading the source {source}"));
            cx.system.read(Path::new(source), LIMIT).map_err(failing)
        }
        (None, None) => Ok(Vec::new()),
    }
}

/// Keeps a copy of a file that is there, and removes what is not of the kind that will take its place.
fn clear(cx: &Cx<'_>, resource: &Resource, successor: &str) -> Result<(), EngineError> {
    let path = Path::new(&resource.name);
    let failing = || EngineError::during(resource, format!("removing {}", resource.name));
    let Some(found) = cx.system.metadata(path).map_err(failing())? else {
        return Ok(());
    };
    match found.kind {
        FileKind::Directory if successor == "directory" => Ok(()),
        FileKind::Directory if resource.flag("force") => {
            cx.system.remove_tree(path).map_err(failing())
        }
        FileKind::Directory => {
            let problem = format!(
                "{} is a directory, which is only removed with `force=true`",
                resource.name
            );
            Err(EngineError::failed(resource, problem))
        }
        FileKind::File => {
            backup(cx, resource)?;
            if successor == "file" {
                Ok(())
            } else {
                cx.system.remove_file(path).map_err(failing())
            }
        }
        FileKind::Link | FileKind::Other => cx.system.remove_file(path).map_err(failing()),
    }
}

fn backup(cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
    let Some(suffix) = resource.text("backup").filter(|suffix| *suffix != "false") else {
        return Ok(());
    };
    let (path, copy) = (
        Path::new(&resource.name),
        PathBuf::from(format!("{}{suffix}", resource.name)),
    );
    let failing = || {
        EngineError::during(
            resource,
            format!("copying {} to {}", resource.name, copy.display()),
        )
    };
    let Some(found) = cx.system.metadata(path).map_err(failing())? else {
        return Ok(());
    };
    let content = cx.system.read(path, LIMIT).map_err(failing())?;
    let attributes = Attributes {
        mode: Some(found.mode),
        uid: Some(found.uid),
        gid: Some(found.gid),
    };
    cx.system
        .write(&copy, &content, &attributes)
        .map_err(failing())
}

/// Lets the command judge the new content in a file beside the real one, which nobody else can read.
fn validate(cx: &Cx<'_>, resource: &Resource, content: &[u8]) -> Result<(), EngineError> {
    let Some(line) = resource.text("validate_cmd") else {
        return Ok(());
    };
    let trial = format!("{}.muster-validate", resource.name);
    let path = Path::new(&trial);
    let failing = || EngineError::during(resource, format!("trying the content in {trial}"));
    let private = Attributes {
        mode: Some(0o600),
        ..Attributes::default()
    };
    cx.system
        .write(path, content, &private)
        .map_err(failing())?;
    let line = line.replace('%', &format!("'{}'", trial.replace('\'', r"'\''")));
    let mut command = Command::new(["/bin/sh", "-c", &line]);
    command.cancel = cx.cancel.clone();
    let output = cx.system.run(&command);
    cx.system.remove_file(path).map_err(failing())?;
    let output = output.map_err(failing())?;
    if output.success() {
        return Ok(());
    }
    let problem = format!(
        "the new content is refused: '{line}' returned {}: {}",
        output.code,
        output.text().trim()
    );
    Err(EngineError::failed(resource, problem))
}

fn has_parent(cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
    let parent = Path::new(&resource.name).parent().unwrap_or(Path::new("/"));
    let failing = EngineError::during(resource, format!("looking at {}", parent.display()));
    match paths::follow(cx.system, parent).map_err(failing)? {
        Some(found) if found.kind == FileKind::Directory => Ok(()),
        Some(_) => Err(EngineError::failed(
            resource,
            format!("{} is not a directory", parent.display()),
        )),
        None => {
            let problem = format!(
                "its directory {} does not exist; create that first",
                parent.display()
            );
            Err(EngineError::failed(resource, problem))
        }
    }
}

/// Mode, owner and group as desired, names looked up.
fn attributes(cx: &Cx<'_>, resource: &Resource) -> Result<Attributes, EngineError> {
    let unknown = |name: &str, who: &str| {
        EngineError::failed(
            resource,
            format!("{name} `{who}` does not exist on this machine"),
        )
    };
    let mut attributes = Attributes {
        mode: resource
            .text("mode")
            .and_then(|mode| u32::from_str_radix(mode, 8).ok()),
        ..Attributes::default()
    };
    if let Some(owner) = resource.text("owner") {
        let uid = names::uid(cx.system, owner)
            .map_err(EngineError::during(resource, "looking the owner up"))?;
        attributes.uid = Some(uid.ok_or_else(|| unknown("user", owner))?);
    }
    if let Some(group) = resource.text("group") {
        let gid = names::gid(cx.system, group)
            .map_err(EngineError::during(resource, "looking the group up"))?;
        attributes.gid = Some(gid.ok_or_else(|| unknown("group", group))?);
    }
    Ok(attributes)
}
