//! `motd_fragment`: a line of the message of the day, of the text before a login, or of the prompt. The daemon renders them.
//!
//! A fragment is a file `ORDER_NAME` in `motd.d`, `issue.d` or `prompt.d` below `/etc/muster`. Its content is a template; the plugin `motd` describes
//! what it may contain. Nothing is rendered here; a template with a syntax error is refused.

use std::path::{Path, PathBuf};

use muster_base::error_chain;
use muster_system::error::found_or_none;
use muster_system::{FileAttributes, SystemResult};

use crate::error::{EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::paths;
use crate::resource::{Resource, ResourceValue, ResourceValues, name_values};
use crate::resource_type::{BoundResource, ResourceContext, ResourceType};
use crate::schema::AttributeKind::{Int, Text, Word};
use crate::schema::{TypeSchema, parameter, presence_property, property};

/// The directory of the directories with fragments.
pub const FRAGMENTS_ROOT: &str = "/etc/muster";
pub const MAX_FRAGMENT_BYTES: u64 = 16 * 1024;
const MAX_ORDER: u32 = 999_999;
pub const DEFAULT_FRAGMENT_ORDER: u32 = 10;
/// File systems permit 255 for the whole file name.
const MAX_NAME_BYTES: usize = 200;

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "motd_fragment",
    doc: "A line of the message of the day, of the text before a login, or of the prompt.",
    namevar: "name",
    attributes: &[
        presence_property("Whether the fragment exists."),
        property("order", Int, "Fragments are sorted by this number, then by name.")
            .with_default("10"),
        property("content", Text, "The text, a template; by default the name as an item."),
        parameter("class", Text, "Show the text only while the node has this class."),
        parameter("target", Word(&["motd", "issue", "prompt"]), "Which text it belongs to.")
            .with_default("motd"),
        parameter("name", Text, "The name."),
    ],
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FragmentTarget {
    /// The message after a login.
    Motd,
    /// The text before a login.
    Issue,
    /// The prompt of a shell.
    Prompt,
}

impl FragmentTarget {
    pub const ALL: [Self; 3] = [Self::Motd, Self::Issue, Self::Prompt];

    /// The name, as in the attribute `target`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Motd => "motd",
            Self::Issue => "issue",
            Self::Prompt => "prompt",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.as_str() == name)
    }

    pub fn directory(self) -> PathBuf {
        Path::new(FRAGMENTS_ROOT).join(format!("{}.d", self.as_str()))
    }

    /// The content of a fragment without one: its name as an item of a list, or as a word of the prompt.
    pub fn default_content(self, name: &str) -> String {
        match self {
            Self::Motd | Self::Issue => format!("    -- {name}\n"),
            Self::Prompt => format!("{name}\n"),
        }
    }
}

/// Sorts as fragments do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FragmentName {
    pub order: u32,
    pub name: String,
    /// The name of the file; the order in it may have leading zeros.
    pub file_name: String,
}

impl FragmentName {
    /// The name of a fragment that is written: an order of one digit gets a zero, so that `ls` sorts like the text.
    pub fn new(order: u32, name: &str) -> Self {
        Self { order, name: name.to_owned(), file_name: format!("{order:02}_{name}") }
    }

    /// Parses the name of a file. `None` for other files, such as backups of editors and hidden files.
    pub fn parse(file_name: &str) -> Option<Self> {
        let (order, name) = file_name.split_once('_')?;
        let is_number = !order.is_empty() && order.bytes().all(|byte| byte.is_ascii_digit());
        let order = order.parse().ok().filter(|order| is_number && *order <= MAX_ORDER)?;
        let (name, file_name) = (name.to_owned(), file_name.to_owned());
        is_fragment_name(&name).then_some(Self { order, name, file_name })
    }
}

/// Whether a text can be the name of a fragment: printable, without `/` and `{`, which begins a template expression, and not the name of an editor's or package manager's backup.
pub fn is_fragment_name(name: &str) -> bool {
    let is_backup = name.ends_with('~')
        || [".bak", ".swp", ".tmp", ".dpkg-old", ".dpkg-new", ".dpkg-dist", ".rpmsave", ".rpmnew"]
            .iter()
            .any(|suffix| name.ends_with(suffix));
    let is_printable = !name.contains(|c: char| matches!(c, '/' | '{') || c.is_control());
    !name.is_empty()
        && name.trim() == name
        && name.len() <= MAX_NAME_BYTES
        && is_printable
        && !is_backup
}

/// The template that shows a text only while the node has a class.
pub fn restrict_to_class(content: &str, class: &str) -> String {
    let content = content.trim_end_matches('\n');
    format!("{{% if \"{class}\" in classes %}}\n{content}\n{{% endif %}}\n")
}

/// The first syntax error of a template, if it has one. The template is not rendered: its memory and time are limited in the daemon's own process for that.
fn syntax_problem(content: &str) -> Option<String> {
    let environment = minijinja::Environment::new();
    environment.template_from_str(content).err().map(|error| error_chain(&error))
}

/// Whether a text is the name of a class in Puppet's grammar.
pub fn is_class_name(class: &str) -> bool {
    let is_segment = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_lowercase())
            && segment.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    class.split("::").all(is_segment)
}

#[derive(Debug)]
pub struct MotdFragmentResourceType;

impl ResourceType for MotdFragmentResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        let invalid =
            |name, problem: String| Err(EngineError::invalid_value(&resource, name, problem));
        if !is_fragment_name(&resource.name) {
            let problem = format!(
                "is `{}`, must be a printable line without `/` and `{{`, at most {MAX_NAME_BYTES} bytes, and not end like a backup file",
                resource.name
            );
            return invalid("name", problem);
        }
        let order = resource.get_int("order").unwrap_or_default();
        if !(0..=i64::from(MAX_ORDER)).contains(&order) {
            return invalid("order", format!("is {order}, must be from 0 to {MAX_ORDER}"));
        }
        let class = resource.get_text("class").map(str::to_lowercase);
        if let Some(class) = class.as_ref().filter(|class| !is_class_name(class)) {
            return invalid(
                "class",
                format!("is `{class}`, must be a class such as mysql::master"),
            );
        }
        let content = resource.get_text("content").unwrap_or_default();
        let mut content = if content.trim().is_empty() {
            target_of(&resource).default_content(&resource.name)
        } else {
            format!("{}\n", content.trim_end_matches('\n'))
        };
        if let Some(class) = class {
            content = restrict_to_class(&content, &class);
        }
        if content.len() as u64 > MAX_FRAGMENT_BYTES {
            let problem = format!("has {} bytes, the limit is {MAX_FRAGMENT_BYTES}", content.len());
            return invalid("content", problem);
        }
        if let Some(problem) = syntax_problem(&content) {
            return invalid("content", format!("is no valid template: {problem}"));
        }
        resource.set_value("content", content);
        Ok(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let target = target_of(resource);
        let found = find_fragments(resource.cx, target, &resource.name)
            .map_err(|source| EngineError::system(resource, "reading the fragments", source))?;
        // Of several with the name, one with another order is the state: the change of `order` then removes it.
        let desired = resource.get_int("order");
        let other = found.iter().find(|found| Some(i64::from(found.order)) != desired);
        let Some(found) = other.or(found.last()) else { return Ok(ResourceState::absent()) };
        let values = read_fragment(resource.cx, target, found)
            .map_err(|source| EngineError::system(resource, "reading the fragment", source))?;
        Ok(ResourceState { values })
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let resource = &cx.bind(&plan.resource);
        let is_removal = change.property == "ensure" && change.to.as_text() == Some("absent");
        let result =
            if is_removal { remove_others(resource, None) } else { write_fragment(resource) };
        result.map_err(|source| EngineError::system(resource, "writing the fragment", source))
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let list = || {
            let mut instances = Vec::new();
            for target in FragmentTarget::ALL {
                for found in list_fragments(cx, target)? {
                    instances.push((found.name.clone(), read_fragment(cx, target, &found)?));
                }
            }
            Ok(instances)
        };
        list().map_err(|source| EngineError::system(&all, "reading the fragments", source))
    }
}

fn target_of(resource: &Resource) -> FragmentTarget {
    let name = resource.get_text("target").unwrap_or_default();
    FragmentTarget::from_name(name).unwrap_or(FragmentTarget::Motd)
}

/// The fragments of a target, sorted.
fn list_fragments(
    cx: &ResourceContext<'_>,
    target: FragmentTarget,
) -> SystemResult<Vec<FragmentName>> {
    let names = found_or_none(cx.system.read_dir(&target.directory()))?.unwrap_or_default();
    let mut fragments: Vec<_> = names.iter().filter_map(|name| FragmentName::parse(name)).collect();
    fragments.sort_unstable();
    Ok(fragments)
}

fn find_fragments(
    cx: &ResourceContext<'_>,
    target: FragmentTarget,
    name: &str,
) -> SystemResult<Vec<FragmentName>> {
    let mut fragments = list_fragments(cx, target)?;
    fragments.retain(|fragment| fragment.name == name);
    Ok(fragments)
}

fn read_fragment(
    cx: &ResourceContext<'_>,
    target: FragmentTarget,
    found: &FragmentName,
) -> SystemResult<ResourceValues> {
    let path = target.directory().join(&found.file_name);
    let content = cx.system.read_file(&path, MAX_FRAGMENT_BYTES)?;
    Ok(name_values([
        ("ensure", "present".into()),
        ("order", ResourceValue::Int(found.order.into())),
        ("content", String::from_utf8_lossy(&content).into_owned().into()),
    ]))
}

/// Writes the fragment, then removes those with the same name and another order.
fn write_fragment(resource: &BoundResource<'_>) -> SystemResult<()> {
    let order = resource.get_int("order").and_then(|order| u32::try_from(order).ok());
    let order = order.unwrap_or(DEFAULT_FRAGMENT_ORDER);
    let written = FragmentName::new(order, &resource.name);
    let directory = target_of(resource).directory();
    paths::create_dirs(resource.cx.system, &directory, &FileAttributes::with_mode(0o755))?;
    let content = resource.get_text("content").unwrap_or_default();
    let attributes = FileAttributes::with_mode(0o644);
    resource.cx.system.write_file(
        &directory.join(&written.file_name),
        content.as_bytes(),
        &attributes,
    )?;
    remove_others(resource, Some(&written))
}

fn remove_others(resource: &BoundResource<'_>, kept: Option<&FragmentName>) -> SystemResult<()> {
    let target = target_of(resource);
    for found in find_fragments(resource.cx, target, &resource.name)? {
        if Some(&found) != kept {
            resource.cx.system.remove_file(&target.directory().join(&found.file_name))?;
        }
    }
    Ok(())
}
