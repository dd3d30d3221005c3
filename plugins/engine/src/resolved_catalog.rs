//! A catalog validated against its types: members, containment and reference lookup.
//!
//! Resolving changes nothing and reads the machine only for types that generate resources. An invalid resource
//! rejects the whole catalog, as in Puppet, because a partial configuration is not applied.

use std::collections::{BTreeSet, HashMap};

use crate::catalog::{Catalog, CatalogEntry, CatalogError, ResourceReference};
use crate::engine::ResourceEngine;
use crate::munge::normalise_path;
use crate::resource::Resource;
use crate::resource_type::CatalogResources;
use crate::types::schedule::ScheduleResourceType;

pub(crate) type MemberId = usize;

/// A resource or container of the catalog, with the data the run needs.
#[derive(Debug)]
pub(crate) struct CatalogMember {
    pub(crate) reference: ResourceReference,
    /// The validated resource; `None` for a container.
    pub(crate) resource: Option<Resource>,
    pub(crate) container: Option<MemberId>,
    pub(crate) tags: Vec<String>,
    /// Source file of the definition.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u64>,
    /// Names of attributes whose values are never displayed.
    pub(crate) sensitive: BTreeSet<String>,
    /// Exported for other machines.
    pub(crate) is_virtual: bool,
    /// Names of its containers, outermost first, and its own.
    pub(crate) path: Vec<String>,
    /// Relationships from its metaparameters.
    pub(crate) relations: Vec<MemberRelation>,
}

impl CatalogMember {
    /// `/Stage[main]/Main/File[/etc/motd]`.
    pub(crate) fn log_source(&self) -> String {
        format!("/{}", self.path.join("/"))
    }
}

/// An explicit relationship.
#[derive(Debug, Clone)]
pub(crate) struct MemberRelation {
    pub(crate) other: ResourceReference,
    pub(crate) other_first: bool,
    /// Whether a change of the first refreshes the second.
    pub(crate) refresh: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ResolvedCatalog {
    members: Vec<CatalogMember>,
    /// Index by reference, name and alias.
    names: HashMap<ResourceReference, MemberId>,
    /// Catalog order, with generated resources next to their generator.
    order: Vec<MemberId>,
}

impl ResolvedCatalog {
    /// Validates every resource of the catalog.
    pub(crate) fn new(engine: &ResourceEngine, catalog: &Catalog) -> Result<Self, CatalogError> {
        let mut resolved = Self::default();
        for (index, entry) in catalog.entries.iter().enumerate() {
            let member = CatalogMember {
                path: catalog.containment_path(index),
                ..build_member(engine, entry)?
            };
            resolved.add_member(member, entry)?;
        }
        for member in &resolved.members {
            resolved.check_schedule(member)?;
            for relation in &member.relations {
                if resolved.find_member(&relation.other).is_none() {
                    return Err(CatalogError::Missing {
                        missing: relation.other.to_string(),
                        resource: member.reference.to_string(),
                    });
                }
            }
        }
        Ok(resolved)
    }

    fn check_schedule(&self, member: &CatalogMember) -> Result<(), CatalogError> {
        let name = member.resource.as_ref().and_then(|resource| resource.get_text("schedule"));
        match name {
            Some(name) if self.find_schedule(name).is_none() => Err(CatalogError::Missing {
                missing: ResourceReference::new("schedule", name).to_string(),
                resource: member.reference.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// The schedule of that name: from the catalog or predeclared.
    pub(crate) fn find_schedule(&self, name: &str) -> Option<Resource> {
        let declared = self.find_resource("schedule", name).cloned();
        declared.or_else(|| ScheduleResourceType::predeclared_schedule(name))
    }

    fn add_member(
        &mut self,
        member: CatalogMember,
        entry: &CatalogEntry,
    ) -> Result<(), CatalogError> {
        let id = self.members.len();
        let mut names = vec![member.reference.title.clone()];
        names.extend(string_list(entry.attributes.get("alias")));
        // Two resources may run the same command; for other types the name identifies one object.
        if let Some(resource) = member.resource.as_ref().filter(|_| is_isomorphic(&member)) {
            names.push(resource.name.clone());
        }
        for name in names {
            let reference = ResourceReference::new(&member.reference.type_name, &name);
            match self.names.get(&reference) {
                Some(other) if *other != id => {
                    let other = self.members.get(*other);
                    let locations =
                        other.map(|other| format!("{} and {}", other.reference, member.reference));
                    let reference = reference.to_string();
                    return Err(CatalogError::Duplicate { reference, locations });
                }
                _ => {
                    self.names.insert(reference, id);
                }
            }
        }
        self.order.push(id);
        self.members.push(member);
        Ok(())
    }

    pub(crate) fn get_member(&self, id: MemberId) -> Option<&CatalogMember> {
        self.members.get(id)
    }

    /// A member and its resource; `None` for a container.
    pub(crate) fn member_with_resource(&self, id: MemberId) -> Option<(&CatalogMember, &Resource)> {
        let member = self.get_member(id)?;
        Some((member, member.resource.as_ref()?))
    }

    /// The resource of a member; `None` for a container.
    pub(crate) fn resource_of(&self, id: MemberId) -> Option<&Resource> {
        self.member_with_resource(id).map(|(_, resource)| resource)
    }

    pub(crate) fn find_member(&self, reference: &ResourceReference) -> Option<MemberId> {
        if let Some(id) = self.names.get(reference) {
            return Some(*id);
        }
        // `File[/x/]` is `File[/x]`.
        let title = Some(&reference.title).filter(|_| reference.type_name == "file")?;
        let path = normalise_path(title)?;
        self.names.get(&ResourceReference::new("file", &path)).copied()
    }

    pub(crate) fn in_order(&self) -> impl Iterator<Item = (MemberId, &CatalogMember)> {
        self.order.iter().filter_map(|id| Some((*id, self.members.get(*id)?)))
    }

    pub(crate) fn add_relation(&mut self, id: MemberId, relation: MemberRelation) {
        if let Some(member) = self.members.get_mut(id) {
            member.relations.push(relation);
        }
    }

    /// Adds a generated resource right after or before its generator; `None` if the catalog already has it.
    pub(crate) fn add_generated(
        &mut self,
        parent: MemberId,
        resource: Resource,
        first: bool,
    ) -> Option<MemberId> {
        let reference = ResourceReference::new(&resource.type_name, &resource.title);
        let name = ResourceReference::new(&resource.type_name, &resource.name);
        if self.find_member(&reference).is_some() || self.find_member(&name).is_some() {
            return None;
        }
        let generator = self.members.get(parent)?;
        let mut path = generator.path.clone();
        path.pop();
        path.push(resource.reference());
        let mut tags = vec![resource.type_name.clone()];
        tags.extend(generator.tags.iter().filter(|tag| **tag != resource.type_name).cloned());
        let member = CatalogMember {
            reference: reference.clone(),
            container: generator.container,
            tags,
            file: generator.file.clone(),
            line: generator.line,
            sensitive: BTreeSet::new(),
            is_virtual: false,
            path,
            relations: generated_relations(&resource),
            resource: Some(resource),
        };
        let id = self.members.len();
        self.members.push(member);
        self.names.insert(reference, id);
        self.names.insert(name, id);
        let position = self.order.iter().position(|member| *member == parent);
        let position = position
            .map_or(self.order.len(), |position| if first { position } else { position + 1 });
        self.order.insert(position, id);
        Some(id)
    }
}

impl CatalogResources for ResolvedCatalog {
    fn find_resource(&self, type_name: &str, name: &str) -> Option<&Resource> {
        self.resource_of(self.find_member(&ResourceReference::new(type_name, name))?)
    }

    fn resources_of_type(&self, type_name: &str) -> Vec<&Resource> {
        self.in_order()
            .filter(|(_, member)| member.reference.type_name == type_name)
            .filter_map(|(_, member)| member.resource.as_ref())
            .collect()
    }
}

/// Relationship metaparameters: whether the other resource comes first, and whether a change of the first refreshes the second.
const RELATION_KINDS: [(&str, bool, bool); 4] = [
    ("before", false, false),
    ("notify", false, true),
    ("require", true, false),
    ("subscribe", true, true),
];

/// Whether the name identifies one object on the machine.
fn is_isomorphic(member: &CatalogMember) -> bool {
    !matches!(member.reference.type_name.as_str(), "exec" | "notify")
}

fn build_member(
    engine: &ResourceEngine,
    entry: &CatalogEntry,
) -> Result<CatalogMember, CatalogError> {
    let resource =
        if entry.is_container { None } else { Some(engine.check_catalog_resource(entry)?) };
    Ok(CatalogMember {
        reference: entry.reference.clone(),
        resource,
        container: entry.container,
        tags: entry.tags.clone(),
        file: entry.file.clone(),
        line: entry.line,
        sensitive: entry.sensitive.clone(),
        is_virtual: entry.is_virtual,
        path: Vec::new(),
        relations: parse_relations(entry)?,
    })
}

/// Relationships of a generated resource; references that are not valid are ignored.
fn generated_relations(resource: &Resource) -> Vec<MemberRelation> {
    let others = |name: &str| resource.get_list(name).into_iter().map(str::to_owned).collect();
    relations_to(others).flatten().collect()
}

fn parse_relations(entry: &CatalogEntry) -> Result<Vec<MemberRelation>, CatalogError> {
    relations_to(|name| string_list(entry.attributes.get(name))).collect()
}

/// The relationships to the resources that each metaparameter names.
fn relations_to(
    others: impl Fn(&str) -> Vec<String>,
) -> impl Iterator<Item = Result<MemberRelation, CatalogError>> {
    RELATION_KINDS.into_iter().flat_map(move |(name, other_first, refresh)| {
        let relation =
            move |text: String| Ok(MemberRelation { other: text.parse()?, other_first, refresh });
        others(name).into_iter().map(relation)
    })
}

/// One string, or a list of strings.
fn string_list(value: Option<&serde_json::Value>) -> Vec<String> {
    match value {
        Some(serde_json::Value::String(text)) => vec![text.clone()],
        Some(serde_json::Value::Array(values)) => {
            values.iter().flat_map(|value| string_list(Some(value))).collect()
        }
        _ => Vec::new(),
    }
}
