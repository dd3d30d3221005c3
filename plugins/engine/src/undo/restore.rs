//! Turns a record into the resources that restore the recorded state. Refuses to overwrite what was changed since, unless it is forced.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use muster_base::count_text;
use muster_system::FileEntryKind;
use muster_system::command::CancelFlag;
use serde_json::{Map, Value as Json};

use super::{ChangeRecord, MAX_LEFT_CONTENT_BYTES, Prerequisite, UnrestoredProperty, location_of};
use crate::engine::ResourceEngine;
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::{REDACTED, ResourceState, is_absent, quote_value};
use crate::providers::digest::ChecksumKind;
use crate::providers::service::UNMASK;
use crate::resource::{Resource, ResourceValue};
use crate::resource_type::ResourceContext;
use crate::types::file::{LabelledContent, diff_of_contents};

#[derive(Clone)]
pub struct RestoreTarget(ChangeRecord);

impl std::fmt::Debug for RestoreTarget {
    /// Prints the resource without values, because a value may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RestoreTarget").field(&self.0.reference()).finish()
    }
}

/// A resource that was changed after the change that is to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreConflict {
    /// `File[/etc/motd]: content`: the resource and what was changed.
    pub description: String,
    /// What was changed in the content of a file.
    pub diff: Option<String>,
}

#[derive(Debug, Default)]
pub struct PreparedRestore {
    /// What to apply; `None` if nothing of it can be restored.
    pub resource: Option<Resource>,
    /// What is not restored, and why, each as one line.
    pub unrestored: Vec<String>,
    /// What an undo would overwrite.
    pub conflict: Option<RestoreConflict>,
}

/// The last change is undone first, each after its prerequisites.
pub(super) fn list_targets(changes: Vec<ChangeRecord>, omitted: usize) -> Vec<RestoreTarget> {
    let mut targets = Vec::new();
    for mut change in changes.into_iter().rev() {
        let prerequisites = std::mem::take(&mut change.prerequisites);
        targets.extend(prerequisites.into_iter().map(RestoreTarget::from_prerequisite));
        targets.push(RestoreTarget(change));
    }
    if let Some(RestoreTarget(last)) = targets.last_mut().filter(|_| omitted > 0) {
        let reason = format!("{omitted} further changes of the request were not recorded");
        let property = "further resources".to_owned();
        last.unrestored.push(UnrestoredProperty { property, reason, forced_attribute: None });
    }
    targets
}

/// Builds the resources of all targets, and compares the machine with what the changes left. Reads only.
pub fn prepare_targets(
    engine: &ResourceEngine,
    targets: &[RestoreTarget],
    force: bool,
) -> Result<Vec<PreparedRestore>> {
    let mut removed = BTreeSet::new();
    let prepare = |target: &RestoreTarget| {
        let prepared = target.prepare(engine, force, &removed)?;
        let gone = prepared.resource.as_ref().filter(|resource| {
            resource.type_name == "file" && resource.get_text("ensure") == Some("absent")
        });
        removed.extend(gone.map(|resource| PathBuf::from(&resource.name)));
        Ok(prepared)
    };
    targets.iter().map(prepare).collect()
}

impl RestoreTarget {
    fn from_prerequisite(prerequisite: Prerequisite) -> Self {
        let Prerequisite { type_name, title, attributes } = prerequisite;
        Self(ChangeRecord {
            type_name,
            title,
            attributes: Some(attributes),
            obstacle: None,
            unrestored: Vec::new(),
            prerequisites: Vec::new(),
            left: None,
            left_content: None,
        })
    }

    pub fn type_name(&self) -> &str {
        &self.0.type_name
    }

    /// Builds the resource, and compares the machine with what the change left. Reads only. `removed`: the paths that earlier targets remove.
    fn prepare(
        &self,
        engine: &ResourceEngine,
        force: bool,
        removed: &BTreeSet<PathBuf>,
    ) -> Result<PreparedRestore> {
        let change = &self.0;
        let mut prepared = PreparedRestore::default();
        let Some(mut attributes) = change.attributes.clone() else {
            let obstacle = change.obstacle.as_deref().unwrap_or_default();
            prepared.unrestored.push(format!("{}: {obstacle}", change.reference()));
            return Ok(prepared);
        };
        for unrestored in &change.unrestored {
            let UnrestoredProperty { property, reason, forced_attribute } = unrestored;
            match forced_attribute {
                Some(name) if force => drop(attributes.insert(name.clone(), Json::from(true))),
                Some(_) => {
                    let reason = format!("{reason}; an undo with `force` removes it too");
                    prepared.note(change, property, &reason);
                }
                None => prepared.note(change, property, reason),
            }
        }
        if change.type_name == "user" {
            prepared.drop_missing_groups(engine, change, &mut attributes);
        }
        let cx = engine.resource_context(CancelFlag::default());
        let mut resource = prepared.build_resource(engine, change, attributes)?;
        if change.type_name == "file" {
            prepared.check_directory(&cx, change, &mut resource, force, removed)?;
        }
        if prepared.conflict.is_none() && !force {
            prepared.conflict = find_conflict(engine, &cx, change, &resource)?;
        }
        prepared.resource = Some(resource);
        Ok(prepared)
    }
}

impl PreparedRestore {
    fn note(&mut self, change: &ChangeRecord, property: &str, reason: &str) {
        self.unrestored.push(format!("{}: {property}: {reason}", change.reference()));
    }

    /// Builds the resource without the attributes that its type rejects. The content may be larger than that of a request.
    fn build_resource(
        &mut self,
        engine: &ResourceEngine,
        change: &ChangeRecord,
        mut attributes: Map<String, Json>,
    ) -> Result<Resource> {
        let content = match change.type_name.as_str() {
            "file" => attributes.remove("content"),
            _ => None,
        };
        let mut resource = loop {
            match engine.check_resource(&change.type_name, &change.title, &attributes) {
                Ok(resource) => break resource,
                Err(EngineError::Invalid { name, problem, .. })
                    if name != "ensure" && attributes.remove(&name).is_some() =>
                {
                    self.note(change, &name, &format!("its earlier value {problem}"));
                }
                Err(error) => return Err(error),
            }
        };
        if change.type_name == "service" && resource.get_text("enable") == Some("false") {
            resource.set_value(UNMASK, ResourceValue::Bool(true));
        }
        if let Some(Json::String(content)) = content {
            resource.values.entry("ensure".to_owned()).or_insert_with(|| "file".into());
            resource.set_value("content", content);
        }
        Ok(resource)
    }

    /// A user cannot be created in groups that have been removed since.
    fn drop_missing_groups(
        &mut self,
        engine: &ResourceEngine,
        change: &ChangeRecord,
        attributes: &mut Map<String, Json>,
    ) {
        let exists =
            |name: &str| !engine.find_state("group", name).is_ok_and(|group| group.is_absent());
        let Some(Json::Array(groups)) = attributes.get_mut("groups") else { return };
        let mut missing = Vec::new();
        groups.retain(|group| {
            let name = group.as_str().unwrap_or_default();
            let is_kept = exists(name);
            if !is_kept {
                missing.push(name.to_owned());
            }
            is_kept
        });
        for name in missing {
            self.note(change, "groups", &format!("the group {name} no longer exists"));
        }
    }

    /// A directory is removed or replaced only if it is empty, or with `force`.
    fn check_directory(
        &mut self,
        cx: &ResourceContext<'_>,
        change: &ChangeRecord,
        resource: &mut Resource,
        force: bool,
        removed: &BTreeSet<PathBuf>,
    ) -> Result<()> {
        let doing = format_args!("inspecting {}", resource.name);
        let path = Path::new(&resource.name);
        let found = cx.system.metadata(path).during(resource, doing)?;
        let is_directory = found.is_some_and(|found| found.kind == FileEntryKind::Directory);
        if !is_directory || matches!(resource.get_text("ensure"), None | Some("directory")) {
            return Ok(());
        }
        let entries = cx.system.read_dir(path).during(resource, doing)?.into_iter();
        let entries = entries.filter(|name| !removed.contains(&path.join(name))).count();
        if entries > 0 && !force {
            let description = format!(
                "{}: the directory is not empty, it has {}",
                change.reference(),
                count_text(entries, "entry", "entries")
            );
            self.conflict = Some(RestoreConflict { description, diff: None });
        }
        resource.set_value("force", ResourceValue::Bool(true));
        Ok(())
    }
}

/// What was changed since: properties that are neither as the change left them nor as the undo restores them.
fn find_conflict(
    engine: &ResourceEngine,
    cx: &ResourceContext<'_>,
    change: &ChangeRecord,
    resource: &Resource,
) -> Result<Option<RestoreConflict>> {
    let attributes = change.attributes.iter().flatten();
    let attributes = attributes.map(|(name, value)| (name.clone(), value.clone())).collect();
    let location = location_of(engine, &change.type_name, &change.title, &attributes)?;
    let current = engine.type_of(&location)?.read_state(&cx.bind(&location))?;
    let is_removal = resource.get_text("ensure") == Some("absent");
    if is_removal && current.is_absent() {
        return Ok(None);
    }
    let schema = engine.type_schema(&change.type_name)?;
    let Some(left) = &change.left else {
        let is_at_risk = change.type_name == "file"
            && current.get_text("ensure") == Some("file")
            && (is_removal || resource.get("content").is_some());
        let description =
            format!("{}: it is not recorded what the change left", change.reference());
        return Ok(is_at_risk.then_some(RestoreConflict { description, diff: None }));
    };
    let left = ResourceState { values: left.clone() };
    let diff = edit_diff(cx, change, &location, [&left, &current]);
    let mut names = Vec::new();
    for property in schema.properties() {
        let name = property.name;
        let is_concerned = is_removal || resource.get(name).is_some();
        if is_concerned && is_changed(name, &left, &current, resource) {
            let show = |value| show_value(property.sensitive, value);
            let (now, then) = (show(current.get(name)), show(left.get(name)));
            names.push(match name {
                // The diff shows it; the values are checksums.
                "content" if diff.is_some() => name.to_owned(),
                _ => format!("{name} is {now}, the change left {then}"),
            });
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    Ok(Some(RestoreConflict {
        description: format!("{}: {}", change.reference(), names.join(", ")),
        diff,
    }))
}

fn show_value(sensitive: bool, value: Option<&ResourceValue>) -> String {
    if sensitive { REDACTED.to_owned() } else { quote_value(value) }
}

fn is_changed(
    name: &str,
    left: &ResourceState,
    current: &ResourceState,
    restored: &Resource,
) -> bool {
    let value = |found: Option<&ResourceValue>| found.filter(|value| !is_absent(value)).cloned();
    let now = value(current.get(name));
    let restored_value = match (name, restored.get_text("content")) {
        ("content", Some(content)) => {
            let sum = ChecksumKind::Sha256.hex_checksum(content.as_bytes());
            Some(format!("{{sha256}}{sum}").into())
        }
        _ => value(restored.get(name)),
    };
    now != value(left.get(name)) && now != restored_value
}

/// The diff of the content that the change left and the current one.
fn edit_diff(
    cx: &ResourceContext<'_>,
    change: &ChangeRecord,
    location: &Resource,
    [left, current]: [&ResourceState; 2],
) -> Option<String> {
    if change.type_name != "file" || left.get("content") == current.get("content") {
        return None;
    }
    let before = change.left_content.as_ref()?;
    let path = Path::new(&location.name);
    let after = cx.system.read_file(path, MAX_LEFT_CONTENT_BYTES).ok()?;
    let modes: Vec<&str> =
        [left, current].into_iter().filter_map(|state| state.get_text("mode")).collect();
    Some(diff_of_contents(
        &location.name,
        &modes,
        LabelledContent { label: "left by the change", content: before.as_bytes() },
        LabelledContent { label: "now", content: &after },
    ))
}

/// What an applied restore did not restore, each as one line.
pub fn remaining_differences(engine: &ResourceEngine, resource: &Resource) -> Vec<String> {
    let reference = resource.reference();
    match engine.plan_resource(resource, CancelFlag::default()) {
        Err(error) => vec![format!("{reference}: {}", error.reason())],
        Ok(plan) => {
            let still = |change: &crate::plan::PropertyChange| {
                let found = show_value(change.sensitive, change.from.as_ref());
                format!("{reference}: {}: it is still {found}", change.property)
            };
            plan.changes.iter().map(still).collect()
        }
    }
}
