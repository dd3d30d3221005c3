//! `group`: a group of users. Supplementary groups of a user are managed by the type `user`.
//!
//! Members are compared as sets: without `auth_membership` additional members are allowed.

use super::user::{
    check_account_name, check_id, is_account_name, merge_lists, value_to_id, value_to_texts,
    with_merged_list,
};
use crate::error::Result;
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::accounts::choice::choose_provider;
use crate::providers::accounts::{GroupAccount as Account, GroupChange, NewGroup};
use crate::resource::{Resource, ResourceValue, ResourceValues, name_values};
use crate::resource_type::{BoundResource, ResourceContext, ResourceType};
use crate::schema::AttributeKind::{Int, List, Text};
use crate::schema::{
    TypeSchema, flag_parameter, parameter, presence_property, property, provider_parameter,
};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "group",
    doc: "A group of users.",
    namevar: "name",
    attributes: &[
        presence_property("Whether the group exists."),
        property("gid", Int, "The GID; chosen automatically by default."),
        property("members", List, "Names of the users in the group.").split_at_commas(),
        provider_parameter(&["groupadd"]),
        parameter("name", Text, "Name of the group."),
        flag_parameter(
            "auth_membership",
            "Whether `members` is the complete list; otherwise other members stay.",
        ),
        flag_parameter("system", "Whether a new group gets a GID of the system range."),
        flag_parameter("allowdupe", "Whether the GID may be in use by another group."),
        flag_parameter("forcelocal", "Whether to use only local files, not a directory service."),
    ],
};

#[derive(Debug)]
pub struct GroupResourceType;

impl ResourceType for GroupResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        check_account_name(&resource)?;
        check_id(&resource, "gid")?;
        resource.check_items("members", "a list of user names", is_account_name)?;
        Ok(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let accounts = choose_provider(resource.cx);
        let found = accounts.find_group(&resource.name, resource.get_flag("forcelocal"));
        let values = found
            .map_err(|error| error.into_engine_error(resource))?
            .map(|found| group_values(&found));
        Ok(values.map_or_else(ResourceState::absent, |values| ResourceState { values }))
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let keep = !resource.get_flag("auth_membership");
        ResourcePlan::compare(&SCHEMA, &with_merged_list(resource, state, "members", keep), state)
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let accounts = choose_provider(cx);
        let resource = &plan.resource;
        let result = match change.property.as_str() {
            "ensure" if change.to.as_text() == Some("absent") => {
                accounts.remove_group(&resource.name)
            }
            "ensure" => accounts.create_group(&new_group(resource)),
            "members" => accounts
                .change_group(&resource.name, &GroupChange::Members(value_to_texts(&change.to))),
            _ => value_to_id(&change.to).map_or(Ok(()), |gid| {
                let change = GroupChange::Gid(gid, resource.get_flag("allowdupe"));
                accounts.change_group(&resource.name, &change)
            }),
        };
        result.map_err(|error| error.into_engine_error(resource))
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let groups = choose_provider(cx).list_groups();
        let groups = groups.map_err(|error| error.into_engine_error(&all))?;
        Ok(groups.iter().map(|group| (group.name.clone(), group_values(group))).collect())
    }
}

fn group_values(group: &Account) -> ResourceValues {
    let gid = ResourceValue::Int(group.gid.into());
    let mut values = name_values([("ensure", "present".into()), ("gid", gid)]);
    if !group.members.is_empty() {
        values.insert("members".to_owned(), ResourceValue::List(group.members.clone()));
    }
    values
}

fn new_group(resource: &Resource) -> NewGroup {
    NewGroup {
        name: resource.name.clone(),
        gid: resource.get("gid").and_then(value_to_id),
        members: merge_lists(&resource.get_list("members"), &[]),
        system: resource.get_flag("system"),
        allowdupe: resource.get_flag("allowdupe"),
    }
}
