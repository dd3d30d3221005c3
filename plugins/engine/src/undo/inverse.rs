//! Computes what restores the state that a plan replaces, before the change; and reads what the change left, after it.

use std::path::Path;

use muster_system::{System, SystemError};
use serde_json::{Map, Value as Json};

use super::{ChangeRecord, MAX_LEFT_CONTENT_BYTES, Prerequisite, UnrestoredProperty, location_of};
use crate::engine::ResourceEngine;
use crate::error::EngineError;
use crate::plan::{PropertyChange, ResourcePlan, is_absent};
use crate::providers::digest::{self, ChecksumKind};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::ResourceContext;
use crate::schema::{AttributeKind, AttributeRole, METAPARAMETERS};
use crate::types::service;

/// Attributes that determine where the resource is on the machine.
const LOCATION_ATTRIBUTES: [&str; 7] =
    ["path", "target", "provider", "user", "name", "links", "forcelocal"];
/// Properties of types of Puppet that can be read, but not set.
const READ_ONLY_PROPERTIES: [&str; 3] = ["ctime", "mtime", "status"];

/// Why there is no previous state to restore.
#[derive(Debug, thiserror::Error)]
enum UndoObstacle {
    #[error("the effect of a resource of type {0} is unknown")]
    UnknownEffect(String),
    #[error("it was neither a file, a directory nor a link before")]
    SpecialFile,
    #[error("its previous state could not be read: {0}")]
    Unread(String),
    #[error("its content could not be saved: {0}")]
    Unsaved(#[from] SystemError),
    #[error("its content has the form of a checksum, which stands for content in a filebucket")]
    LooksLikeChecksum,
    #[error("its content was not saved: the files of one request may have 8 MiB in total")]
    OverBudget,
    #[error(
        "its content was not UTF-8 (sha256 {0}); it is in the filebucket, if the resource has one"
    )]
    NotText(String),
}

impl From<EngineError> for UndoObstacle {
    fn from(error: EngineError) -> Self {
        Self::Unread(error.reason())
    }
}

/// The attributes that restore the previous state, and what they do not restore.
#[derive(Default)]
struct InverseChange {
    attributes: Map<String, Json>,
    unrestored: Vec<UnrestoredProperty>,
    prerequisites: Vec<Prerequisite>,
}

/// Whether the attribute determines how a resource of this type is found and controlled. The `target` of a file is where a link points; the
/// parameters of a service are the commands that query and control it.
pub(super) fn is_location(type_name: &str, name: &str) -> bool {
    match type_name {
        "file" => LOCATION_ATTRIBUTES.contains(&name) && name != "target",
        "service" => !matches!(name, "ensure" | "enable"),
        _ => LOCATION_ATTRIBUTES.contains(&name),
    }
}

/// The record of a change that is about to be made.
pub(super) fn record_change(
    engine: &ResourceEngine,
    cx: &ResourceContext<'_>,
    plan: &ResourcePlan,
    content_budget: &mut u64,
) -> ChangeRecord {
    let Resource { type_name, title, .. } = &plan.resource;
    let mut builder =
        InverseBuilder { engine, cx, plan, content_budget, inverse: InverseChange::default() };
    let (attributes, obstacle) = match builder.compute() {
        Ok(()) => (Some(std::mem::take(&mut builder.inverse.attributes)), None),
        Err(obstacle) => (None, Some(obstacle.to_string())),
    };
    ChangeRecord {
        type_name: type_name.clone(),
        title: title.clone(),
        attributes,
        obstacle,
        unrestored: builder.inverse.unrestored,
        prerequisites: builder.inverse.prerequisites,
        left: None,
        left_content: None,
    }
}

/// Reads what the change left. Without it, an undo treats the state as changed by others.
pub(super) fn record_result(
    engine: &ResourceEngine,
    cx: &ResourceContext<'_>,
    change: &mut ChangeRecord,
) {
    let Some(attributes) = &change.attributes else { return };
    let location = location_of(engine, &change.type_name, &change.title, attributes);
    let state = location.and_then(|location| {
        Ok((engine.type_of(&location)?.read_state(&cx.bind(&location))?, location))
    });
    let Ok((state, location)) = state else { return };
    if change.type_name == "file" && state.get_text("ensure") == Some("file") {
        let bytes = cx.system.read_file(Path::new(&location.name), MAX_LEFT_CONTENT_BYTES);
        change.left_content = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    }
    change.left = Some(state.values);
}

struct InverseBuilder<'a> {
    engine: &'a ResourceEngine,
    cx: &'a ResourceContext<'a>,
    plan: &'a ResourcePlan,
    /// Bytes of content that may still be saved.
    content_budget: &'a mut u64,
    inverse: InverseChange,
}

impl InverseBuilder<'_> {
    fn compute(&mut self) -> Result<(), UndoObstacle> {
        let resource = &self.plan.resource;
        let type_name = resource.type_name.as_str();
        if matches!(type_name, "exec" | "notify") {
            return Err(UndoObstacle::UnknownEffect(type_name.to_owned()));
        }
        let is_kept = |name: &str| {
            let is_metaparameter = METAPARAMETERS.iter().any(|known| known.name == name);
            !is_metaparameter && is_location(type_name, name)
        };
        for (name, value) in resource.values.iter().filter(|(name, _)| is_kept(name)) {
            self.set(name, value);
        }
        let ensure = self.plan.changes.iter().find(|change| change.property == "ensure");
        match ensure {
            Some(change) if change.from.as_ref().is_none_or(|from| is_missing(type_name, from)) => {
                self.undo_creation(change.from.as_ref());
            }
            // Its changes are all in the plan; what it does not change stays as it is.
            Some(_) if type_name == "service" => self.undo_properties()?,
            Some(change) => self.undo_replacement(change)?,
            None => self.undo_properties()?,
        }
        self.make_lists_complete();
        Ok(())
    }

    fn set(&mut self, name: &str, value: &ResourceValue) {
        self.inverse.attributes.insert(name.to_owned(), Json::from(value));
    }

    fn add_unrestored(&mut self, property: &str, reason: String, forced_attribute: Option<&str>) {
        let forced_attribute = forced_attribute.map(str::to_owned);
        let property = property.to_owned();
        self.inverse.unrestored.push(UnrestoredProperty { property, reason, forced_attribute });
    }

    fn undo_creation(&mut self, before: Option<&ResourceValue>) {
        self.set("ensure", before.unwrap_or(&"absent".into()));
        let resource = &self.plan.resource;
        if resource.type_name != "user" || !resource.get_flag("managehome") {
            return;
        }
        let default_home = format!("/home/{}", resource.name);
        let home = resource.get_text("home").unwrap_or(&default_home).to_owned();
        let exists = self.cx.system.metadata(Path::new(&home)).is_ok_and(|found| found.is_some());
        if !exists {
            let reason = format!("the home directory {home} was created with the user and is kept");
            self.add_unrestored("home", reason, Some("managehome"));
        }
    }

    /// Undoes a removal, or a change of kind: everything that was found is restored.
    fn undo_replacement(&mut self, change: &PropertyChange) -> Result<(), UndoObstacle> {
        let resource = &self.plan.resource;
        let (type_name, title) = (&resource.type_name, &resource.title);
        let location = location_of(self.engine, type_name, title, &self.inverse.attributes)?;
        let before = self.engine.type_of(&location)?.read_state(&self.cx.bind(&location))?.values;
        let schema = self.engine.type_schema(type_name)?;
        for (name, value) in &before {
            let attribute = schema.find_attribute(name);
            let is_property =
                attribute.is_some_and(|attribute| attribute.role == AttributeRole::Property);
            if is_property && !READ_ONLY_PROPERTIES.contains(&name.as_str()) && !is_absent(value) {
                self.set(name, value);
            }
        }
        if let Some(from) = change.from.as_ref().filter(|_| type_name != "file") {
            self.set("ensure", from);
        }
        let is_purged = change.to.as_text() == Some("purged");
        match type_name.as_str() {
            "file" => self.undo_file_replacement(&before)?,
            "user" => self.undo_user_removal(&before),
            "package" if is_purged => {
                let reason = "the configuration files that the purge removed were not kept";
                self.add_unrestored("configuration", reason.to_owned(), None);
            }
            _ => {}
        }
        Ok(())
    }

    fn undo_file_replacement(&mut self, before: &ResourceValues) -> Result<(), UndoObstacle> {
        self.inverse.attributes.remove("content");
        let path = self.plan.resource.name.clone();
        match before.get("ensure").and_then(ResourceValue::as_text) {
            Some("file") => self.save_content(Path::new(&path))?,
            Some("directory") => {
                let entries = self.cx.system.read_dir(Path::new(&path))?.len();
                if entries > 0 {
                    let reason =
                        format!("the directory's entries, {entries} in number, were not kept");
                    self.add_unrestored("content", reason, None);
                }
            }
            Some("link") => {}
            _ => return Err(UndoObstacle::SpecialFile),
        }
        Ok(())
    }

    fn save_content(&mut self, path: &Path) -> Result<(), UndoObstacle> {
        let text = read_text(self.cx.system, path, *self.content_budget)?;
        *self.content_budget -= u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.inverse.attributes.insert("content".to_owned(), Json::from(text));
        Ok(())
    }

    /// Removing a user removes its own group too, and with `managehome` its home directory.
    fn undo_user_removal(&mut self, before: &ResourceValues) {
        let name = self.plan.resource.name.as_str();
        let group = self.engine.find_state("group", name).ok();
        if let Some(group) = group.filter(|group| group.get("gid") == before.get("gid")) {
            let values = group.values.iter().map(|(name, value)| (name.clone(), value.into()));
            self.inverse.prerequisites.push(Prerequisite {
                type_name: "group".to_owned(),
                title: name.to_owned(),
                attributes: values.collect(),
            });
        }
        let home = before.get("home").and_then(ResourceValue::as_text).unwrap_or_default();
        let has_home = self.cx.system.metadata(Path::new(home)).is_ok_and(|home| home.is_some());
        if self.plan.resource.get_flag("managehome") && has_home {
            self.set("managehome", &ResourceValue::Bool(true));
            let reason = format!("{home} was removed with its contents, and they were not kept");
            self.add_unrestored("home", reason, None);
        }
    }

    /// Undoes changes of single properties. What cannot be restored is noted, and the others are restored.
    fn undo_properties(&mut self) -> Result<(), UndoObstacle> {
        let plan = self.plan;
        let schema = self.engine.type_schema(&plan.resource.type_name)?;
        for change in &plan.changes {
            let name = change.property.as_str();
            let kind = schema.find_attribute(name).map(|attribute| attribute.kind);
            match (plan.resource.type_name.as_str(), name, &change.from) {
                ("file", "content" | "checksum_value", _) => {
                    if let Err(obstacle) = self.save_content(Path::new(&plan.resource.name)) {
                        self.add_unrestored("content", obstacle.to_string(), None);
                    }
                }
                // A unit that cannot be enabled was masked: enabling it only removes the mask.
                ("service", "enable", Some(from)) if !is_settable(kind, from) => {
                    self.set(name, &"true".into());
                }
                ("service", "ensure", Some(from)) => {
                    self.set(name, from);
                    // A start removes the mask.
                    let is_masked = plan.state.get_text("enable") == Some("mask");
                    if is_masked && service::is_start(plan) {
                        self.set("enable", &"mask".into());
                    }
                }
                (_, _, Some(from)) => self.set(name, from),
                (_, _, None) => self.set(name, &unset_value(kind)),
            }
        }
        Ok(())
    }

    /// The recorded lists are complete, so further names are removed.
    fn make_lists_complete(&mut self) {
        let attributes = &mut self.inverse.attributes;
        let is_removal = attributes.get("ensure").is_some_and(|ensure| ensure == "absent");
        let (property, parameter, value) = match self.plan.resource.type_name.as_str() {
            "user" => ("groups", "membership", Json::from("inclusive")),
            "group" => ("members", "auth_membership", Json::from(true)),
            _ => return,
        };
        if attributes.contains_key(property) && !is_removal {
            attributes.insert(parameter.to_owned(), value);
        }
    }
}

/// Whether `ensure` had a value of a resource that does not exist.
fn is_missing(type_name: &str, ensure: &ResourceValue) -> bool {
    is_absent(ensure) || (type_name == "package" && ensure.as_text() == Some("purged"))
}

/// Whether a property of this kind can have this value, as opposed to a state that is only reported, such as `static`.
fn is_settable(kind: Option<AttributeKind>, value: &ResourceValue) -> bool {
    match kind {
        Some(AttributeKind::Word(words)) => {
            value.as_text().is_none_or(|text| words.contains(&text))
        }
        _ => true,
    }
}

/// The value with which a property is not set.
fn unset_value(kind: Option<AttributeKind>) -> ResourceValue {
    match kind {
        Some(AttributeKind::List | AttributeKind::Commands | AttributeKind::Options) => {
            ResourceValue::List(Vec::new())
        }
        _ => "absent".into(),
    }
}

/// The content of a file, which must be text within the limit.
fn read_text(system: &dyn System, path: &Path, limit: u64) -> Result<String, UndoObstacle> {
    let bytes = system.read_file(path, limit).map_err(|error| match error {
        SystemError::TooLarge { .. } => UndoObstacle::OverBudget,
        error => error.into(),
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        UndoObstacle::NotText(ChecksumKind::Sha256.hex_checksum(error.as_bytes()))
    })?;
    match digest::parse_checksum(&text) {
        None => Ok(text),
        Some(_) => Err(UndoObstacle::LooksLikeChecksum),
    }
}
