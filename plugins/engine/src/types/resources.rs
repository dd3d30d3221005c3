//! `resources`: removes resources of a type that exist on the machine but are not in the catalog.

use std::path::Path;
use std::sync::Arc;

use muster_base::nearest_name;
use muster_system::error::found_or_none;

use super::builtin_types;
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{
    BoundResource, CatalogResources, GenerationPhase, ResourceType, absent_resource,
};
use crate::schema::AttributeKind::{List, Text};
use crate::schema::{TypeSchema, flag_parameter, parameter};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "resources",
    doc: "All resources of a type; with `purge`, those that are not in the catalog are removed.",
    namevar: "name",
    attributes: &[
        parameter("name", Text, "The type: `host`, `user`, `cron`, ..."),
        flag_parameter("purge", "Whether to remove resources that are not in the catalog."),
        parameter(
            "unless_system_user",
            Text,
            "For users: whether system users are kept, or the highest UID that is kept.",
        ),
        parameter("unless_uid", List, "For users: UIDs that are kept.").split_at_commas(),
    ],
};

/// Users that are never removed, whatever their uid.
const PROTECTED_USERS: [&str; 6] = ["root", "nobody", "bin", "noaccess", "daemon", "sys"];
/// Highest system uid if `login.defs` does not define it.
const DEFAULT_MAX_SYSTEM_UID: i64 = 499;
const MAX_LOGIN_DEFS_BYTES: u64 = 1024 * 1024;
/// Attributes that determine the location of a resource and are needed to find it again.
const LOCATION_ATTRIBUTES: [&str; 2] = ["target", "user"];

#[derive(Debug)]
pub struct ResourcesResourceType;

impl ResourceType for ResourcesResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        let resource_type = managed_type(&resource)?;
        if resource.get_flag("purge") {
            let is_listable = !matches!(resource.name.as_str(), "ssh_authorized_key" | "file");
            if resource_type.schema().find_attribute("ensure").is_none() || !is_listable {
                let problem = format!(
                    "is set, but resources of type {} cannot be purged: they cannot be listed",
                    resource.name
                );
                return Err(EngineError::invalid_value(&resource, "purge", problem));
            }
        }
        let is_uid = |text: &str| text.parse::<i64>().is_ok();
        resource.check_items("unless_uid", "a list of UIDs", is_uid)?;
        resource.check_text("unless_system_user", "true, false or a UID", |word| {
            matches!(word, "true" | "false") || is_uid(word)
        })?;
        Ok(resource)
    }

    fn generation_phase(&self, resource: &Resource) -> GenerationPhase {
        GenerationPhase::BeforeTheRun.only_if(resource.get_flag("purge"))
    }

    fn generate_resources(
        &self,
        resource: &BoundResource<'_>,
        siblings: &dyn CatalogResources,
    ) -> Result<Vec<Resource>> {
        if !resource.get_flag("purge") {
            return Ok(Vec::new());
        }
        let resource_type = managed_type(resource)?;
        let excluded_users = spared_users(resource)?;
        let mut purged = Vec::new();
        for (title, values) in resource_type.list_instances(resource.cx)? {
            let ensure = values.get("ensure").and_then(ResourceValue::as_text);
            let exists = !matches!(ensure, Some("absent" | "purged"));
            if exists
                && siblings.find_resource(&resource.name, &title).is_none()
                && !excluded_users.contains(&title, &values)
            {
                // The attributes of the location found.
                let location = |name: &'static str| {
                    resource_type.schema().find_attribute(name)?;
                    Some((name, values.get(name)?.as_text()?))
                };
                let location: Vec<_> =
                    LOCATION_ATTRIBUTES.into_iter().filter_map(location).collect();
                purged.push(absent_resource(&*resource_type, resource, &title, &location)?);
            }
        }
        Ok(purged)
    }
}

fn managed_type(resource: &Resource) -> Result<Arc<dyn ResourceType>> {
    let types = builtin_types();
    let names: Vec<&str> = types.iter().map(|known| known.schema().type_name).collect();
    let suggestion = nearest_name(&resource.name, names);
    types
        .into_iter()
        .find(|known| known.schema().type_name == resource.name)
        .ok_or_else(|| EngineError::UnknownType { name: resource.name.clone(), suggestion })
}

/// Users excluded from purging.
struct SparedUsers {
    max_system_uid: Option<i64>,
    uids: Vec<i64>,
}

impl SparedUsers {
    fn contains(&self, title: &str, values: &ResourceValues) -> bool {
        let uid = values.get("uid").and_then(ResourceValue::as_int);
        self.max_system_uid.is_some_and(|max_system_uid| {
            PROTECTED_USERS.contains(&title)
                || uid.is_none_or(|uid| uid <= max_system_uid || self.uids.contains(&uid))
        })
    }
}

fn spared_users(resource: &BoundResource<'_>) -> Result<SparedUsers> {
    let max_system_uid = match resource.get_text("unless_system_user") {
        _ if resource.name != "user" => None,
        Some("false") => None,
        Some(number) if number != "true" => number.parse().ok(),
        _ => Some(greatest_system_uid(resource)?),
    };
    let uids = resource.get_list("unless_uid").into_iter();
    let uids = uids.filter_map(|number| number.parse().ok()).collect();
    Ok(SparedUsers { max_system_uid, uids })
}

/// `UID_MIN` of `login.defs` minus one.
fn greatest_system_uid(resource: &BoundResource<'_>) -> Result<i64> {
    let path = Path::new("/etc/login.defs");
    let bytes = found_or_none(resource.cx.system.read_file(path, MAX_LOGIN_DEFS_BYTES))
        .during(resource, "reading /etc/login.defs")?
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let uid_min = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("UID_MIN")).then(|| words.next()?.parse::<i64>().ok())?
    });
    Ok(uid_min.map_or(DEFAULT_MAX_SYSTEM_UID, |uid_min| uid_min - 1))
}
