//! Plan of a `file`. Pure.

use super::compare::ContentComparison;
use super::schema::SCHEMA;
use super::{mode, source};
use crate::plan::{ResourcePlan, ResourceState};
use crate::providers::digest;
use crate::resource::{Resource, ResourceValue};

/// The difference between desired and current state, with Puppet's messages.
pub(super) fn plan_file(resource: &Resource, state: &ResourceState) -> ResourcePlan {
    let mut resource = resource.clone();
    source::complete_from_source(&mut resource, state);
    add_search_bits(&mut resource, state);
    let mut desired = resource.clone();
    let sum = plan_content(&mut desired, &resource, state);
    if resource.get("replace").and_then(ResourceValue::as_bool) == Some(false) && !state.is_absent()
    {
        for name in ["ensure", "content", "checksum_value", "target"] {
            desired.values.remove(name);
        }
    }
    // The mode of a link has no meaning and cannot be set.
    if found_kind(state) == Some("link") {
        desired.values.remove("mode");
    }
    // Entries in a directory of links have their own targets.
    if resource.get_text("recurse").is_some_and(|word| word != "false") {
        desired.values.remove("target");
        if resource.get("target").is_some() && resource.get_text("ensure") == Some("link") {
            desired.set_value("ensure", "directory");
            resource.set_value("ensure", "directory");
        }
    }
    let symbolic = plan_symbolic_mode(&mut desired, state);
    let mut plan = ResourcePlan::compare(&SCHEMA, &desired, state);
    for change in &mut plan.changes {
        let to = change.to.as_text().unwrap_or_default();
        match change.property.as_str() {
            // As in Puppet, the message for a new file shows its content, whatever existed before.
            "ensure" if matches!(to, "file" | "present") => {
                if let Some(sum) = &sum {
                    change.message = format!("defined content as '{sum}'");
                }
            }
            "mode" => {
                if let Some((from, bits)) = &symbolic {
                    change.message = format!("mode changed '{from}' to '{bits}' ({to})");
                }
            }
            _ => {}
        }
    }
    ResourcePlan { resource, ..plan }
}

/// Replaces the content by its checksum, or removes it if it is not compared; returns the
/// checksum of a new file.
fn plan_content(
    desired: &mut Resource,
    resource: &Resource,
    state: &ResourceState,
) -> Option<ResourceValue> {
    let comparison = ContentComparison::from_resource(resource);
    let content_sum = resource.get_text("content").and_then(|content| {
        if let Some(sum) = resource.get_text("checksum_value") {
            let kind = resource.get_text("checksum").unwrap_or("sha256");
            return Some(format!("{{{kind}}}{sum}"));
        }
        // A checksum as content refers to content in the bucket.
        if digest::parse_checksum(content).is_some() {
            return Some(content.to_owned());
        }
        comparison.content_checksum(content.as_bytes())
    });
    let sum =
        content_sum.map(ResourceValue::Text).or_else(|| source::source_checksum(state).cloned());
    let in_sync = state
        .get("content")
        .zip(sum.as_ref())
        .is_some_and(|(found, sum)| comparison.is_satisfied(found, sum));
    let is_file = match resource.get_text("ensure") {
        Some("file") => true,
        Some("present") | None => state.is_absent() || found_kind(state) == Some("file"),
        Some(_) => false,
    };
    match &sum {
        Some(sum) if is_file && !in_sync => desired.set_value("content", sum.clone()),
        _ => drop(desired.values.remove("content")),
    }
    if resource.get("source").is_none() || !is_file {
        desired.values.remove("checksum_value");
    }
    sum.filter(|_| is_file)
}

/// In a directory with a numeric mode, each read bit implies the search bit.
fn add_search_bits(resource: &mut Resource, state: &ResourceState) {
    let directory = match resource.get_text("ensure") {
        Some("directory") => true,
        Some("present") | None => found_kind(state) == Some("directory"),
        Some(_) => false,
    };
    let mode = resource.get_text("mode").and_then(|mode| u32::from_str_radix(mode, 8).ok());
    if let (true, Some(mode)) = (directory, mode) {
        let mode = mode | ((mode & 0o444) >> 2);
        resource.set_value("mode", format!("{mode:04o}"));
    }
}

/// For a symbolic mode: removes it if the current bits need no change, otherwise returns current and new bits as strings.
fn plan_symbolic_mode(desired: &mut Resource, state: &ResourceState) -> Option<(String, String)> {
    let clauses = desired.get_text("mode").filter(|mode| mode::is_symbolic(mode))?.to_owned();
    let found = state.get("mode")?.as_text()?.to_owned();
    let current = u32::from_str_radix(&found, 8).ok()?;
    let directory = found_kind(state) == Some("directory");
    let bits = mode::resolve_mode(&clauses, current, directory)?;
    if bits == current {
        desired.values.remove("mode");
        return None;
    }
    Some((found, format!("{bits:04o}")))
}

fn found_kind(state: &ResourceState) -> Option<&str> {
    state.get_text("ensure")
}
