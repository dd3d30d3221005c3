//! Validation of a `file` without access to the machine: mutually exclusive values and derived values.

use crate::error::{EngineError, Result};
use crate::providers::digest::ChecksumKind;
use crate::resource::{Resource, ResourceValue};

/// The suffix for `backup => true`.
const DEFAULT_BACKUP_SUFFIX: &str = ".puppet-bak";

/// Validates the resource and fills in derived values.
pub(super) fn check_file(mut resource: Resource) -> Result<Resource> {
    let given: Vec<&str> = ["content", "source", "target"]
        .into_iter()
        .filter(|name| resource.get(name).is_some())
        .collect();
    if let [first, second, ..] = given.as_slice() {
        let problem = format!("is given together with `{first}`; choose one");
        return Err(EngineError::invalid_value(&resource, second, problem));
    }
    check_ensure(&mut resource)?;
    check_sources(&mut resource)?;
    check_backup(&mut resource)?;
    check_checksum(&resource)?;
    check_recursion(&resource)?;
    settle_static_sources(&mut resource);
    let ensure = resource.get_text("ensure");
    if matches!(ensure, Some("directory" | "link")) && resource.get("content").is_some() {
        let problem = "is `directory` or `link`, which cannot have `content`";
        return Err(EngineError::invalid_value(&resource, "ensure", problem));
    }
    if ensure == Some("link")
        && resource.get("target").is_none()
        && resource.get("source").is_none()
    {
        return Err(EngineError::Missing { resource: resource.reference(), name: "target" });
    }
    Ok(resource)
}

/// A path in `ensure` makes a link to it; content implies a file, and a target implies a link. The kind implied by a source
/// is known only once the source is read.
fn check_ensure(resource: &mut Resource) -> Result<()> {
    let ensure = resource.get_text("ensure").map(str::to_owned);
    let word = match ensure.as_deref() {
        Some("present" | "absent" | "file" | "directory" | "link") => return Ok(()),
        Some("false") => "absent",
        Some(path) if path.starts_with('/') => {
            resource.set_value("target", path);
            "link"
        }
        Some(other) => {
            let problem =
                format!("is `{other}`, must be present, absent, file, directory, link or a path");
            return Err(EngineError::invalid_value(resource, "ensure", problem));
        }
        None if resource.get("target").is_some() => "link",
        None if resource.get("content").is_some() => "file",
        None => return Ok(()),
    };
    resource.set_value("ensure", word);
    Ok(())
}

/// Paths are normalized, `file:` URLs become paths, `puppet:` URLs are unchanged.
fn check_sources(resource: &mut Resource) -> Result<()> {
    if resource.get("source").is_none() {
        return Ok(());
    }
    let normalise = |source: &str| {
        let source = source.trim_end_matches('/');
        if source.starts_with("puppet://") {
            return Ok(source.to_owned());
        }
        let path = source.strip_prefix("file://").unwrap_or(source);
        // The root directory is trimmed to an empty string.
        crate::munge::normalise_path(if path.is_empty() { "/" } else { path }).ok_or_else(|| {
            let problem = format!(
                "is `{source}`, must be a path on the node or a `puppet:` URL; other sources are not supported"
            );
            EngineError::invalid_value(resource, "source", problem)
        })
    };
    let sources: Vec<String> =
        resource.get_list("source").into_iter().map(normalise).collect::<Result<_, _>>()?;
    if sources.is_empty() {
        let problem = "is an empty list, must contain at least one source";
        return Err(EngineError::invalid_value(resource, "source", problem));
    }
    resource.set_value("source", ResourceValue::List(sources));
    Ok(())
}

/// A static catalog decides how a content is compared, as in Puppet. A source that is a path is read from the node, whatever the catalog says.
fn settle_static_sources(resource: &mut Resource) {
    if !resource.get_list("source").iter().any(|source| source.starts_with("puppet:")) {
        resource.static_sources = None;
    }
    if resource.static_sources.is_some() && resource.get("checksum_value").is_none() {
        resource.set_value("checksum", ChecksumKind::Sha256.name());
    }
}

fn check_backup(resource: &mut Resource) -> Result<()> {
    if resource.get_text("backup") == Some("true") {
        resource.set_value("backup", DEFAULT_BACKUP_SUFFIX);
    }
    let is_valid = |suffix: &str| !(suffix.starts_with('.') && suffix.contains('/'));
    resource.check_text("backup", "a suffix without `/`", is_valid)
}

fn check_checksum(resource: &Resource) -> Result<()> {
    let kind = resource.get_text("checksum").unwrap_or("sha256");
    let ignores_content = matches!(kind, "none" | "mtime" | "ctime");
    let conflict = if ignores_content && resource.get("content").is_some() {
        Some("content")
    } else {
        (kind == "none" && resource.get("source").is_some()).then_some("source")
    };
    if let Some(other) = conflict {
        let problem = format!("is `{kind}`, which cannot be used to compare `{other}`");
        return Err(EngineError::invalid_value(resource, "checksum", problem));
    }
    let digest = ChecksumKind::from_name(kind);
    match resource.get_text("checksum_value") {
        Some(sum) if digest.is_some_and(|digest| !digest.is_valid_checksum(sum)) => {
            let problem =
                format!("is `{sum}`, must be a {kind} checksum in lower-case hexadecimal digits");
            Err(EngineError::invalid_value(resource, "checksum_value", problem))
        }
        Some(_) if kind == "none" => {
            let problem = "is given, but `checksum` is `none`, so that nothing is compared";
            Err(EngineError::invalid_value(resource, "checksum_value", problem))
        }
        _ => Ok(()),
    }
}

fn check_recursion(resource: &Resource) -> Result<()> {
    if resource.get_text("recurse") == Some("remote") && resource.get("source").is_none() {
        let problem = "is `remote`, which needs a `source`";
        return Err(EngineError::invalid_value(resource, "recurse", problem));
    }
    for (name, minimum) in [("recurselimit", 0), ("max_files", -1)] {
        if let Some(number) = resource.get_int(name).filter(|number| *number < minimum) {
            let problem = format!("is {number}, must be {minimum} or more");
            return Err(EngineError::invalid_value(resource, name, problem));
        }
    }
    Ok(())
}
