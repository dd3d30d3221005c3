//! `group`: a group of users. A user's own list of groups is the business of the type `user`.
//!
//! Members are compared as sets: without `auth_membership` others may be there too.

use super::user::merged;
use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::accounts::{self, Group as Account, GroupChange, NewGroup, name};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType};
use crate::schema::{Attribute, Kind, Schema};

static SCHEMA: Schema = Schema {
    type_name: "group",
    doc: "A group of users.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["present", "absent"]),
            "Whether the group exists.",
        )
        .or("present"),
        Attribute::property(
            "gid",
            Kind::Int,
            "Number of the group; chosen by the machine if not given.",
        ),
        Attribute::property("members", Kind::List, "Users in the group, by name."),
        Attribute::parameter(
            "provider",
            Kind::Word(&["groupadd"]),
            "How it is done; there is one way.",
        )
        .or("groupadd"),
        Attribute::parameter("name", Kind::Text, "Name of the group."),
        Attribute::parameter(
            "auth_membership",
            Kind::Bool,
            "Whether `members` are all members, or some of them.",
        )
        .or("false"),
        Attribute::parameter(
            "system",
            Kind::Bool,
            "Whether a new group gets a number of the system's range.",
        )
        .or("false"),
        Attribute::parameter(
            "allowdupe",
            Kind::Bool,
            "Whether the number may be another group's too.",
        )
        .or("false"),
        Attribute::parameter(
            "forcelocal",
            Kind::Bool,
            "Whether only the machine's own files count, not a directory service.",
        )
        .or("false"),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Group;

impl ResourceType for Group {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        if let Some(problem) = name::problem(&resource.name) {
            let problem = format!("is `{}`, {problem}", resource.name.escape_debug());
            return Err(EngineError::invalid(&resource, "name", problem));
        }
        let gid = resource.get("gid").and_then(Value::as_int);
        if let Some(gid) = gid.filter(|gid| u32::try_from(*gid).map_or(true, |gid| gid == u32::MAX))
        {
            let problem = format!("is {gid}, must be from 0 to 4294967294");
            return Err(EngineError::invalid(&resource, "gid", problem));
        }
        let members = resource.list("members");
        if let Some(bad) = members
            .into_iter()
            .find(|member| name::problem(member).is_some())
        {
            let problem = format!(
                "contains `{}`, must be names of users, one each",
                bad.escape_debug()
            );
            return Err(EngineError::invalid(&resource, "members", problem));
        }
        Ok(resource)
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let accounts = accounts::of(cx.system, cx.cancel.clone());
        let found = accounts.group(&resource.name, resource.flag("forcelocal"));
        let found = found.map_err(|error| error.of(resource))?;
        Ok(found.map_or_else(State::absent, |found| State {
            values: values(&found),
        }))
    }

    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        let mut wanted = resource.clone();
        if let Some(members) = resource.get("members") {
            let found = state.get("members").map(Value::as_list).unwrap_or_default();
            let members = merged(
                &members.as_list(),
                &found,
                !resource.flag("auth_membership"),
            );
            wanted.values.insert("members".to_owned(), members);
        }
        Plan::compare(&SCHEMA, &wanted, state)
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        let accounts = accounts::of(cx.system, cx.cancel.clone());
        let resource = &plan.resource;
        let made = match change.property.as_str() {
            "ensure" if change.to.as_text() == Some("absent") => {
                accounts.remove_group(&resource.name)
            }
            "ensure" => accounts.create_group(&new_group(resource)),
            "members" => {
                accounts.change_group(&resource.name, &GroupChange::Members(texts(&change.to)))
            }
            _ => match id(&change.to) {
                Some(gid) => {
                    let change = GroupChange::Gid(gid, resource.flag("allowdupe"));
                    accounts.change_group(&resource.name, &change)
                }
                None => Ok(()),
            },
        };
        made.map_err(|error| error.of(resource))
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(&SCHEMA, "*")?;
        let groups = accounts::of(cx.system, cx.cancel.clone()).groups();
        let groups = groups.map_err(|error| error.of(&all))?;
        Ok(groups
            .iter()
            .map(|group| (group.name.clone(), values(group)))
            .collect())
    }
}

fn values(group: &Account) -> Values {
    let mut values = Values::from([
        ("ensure".to_owned(), Value::from("present")),
        ("gid".to_owned(), Value::Int(group.gid.into())),
    ]);
    if !group.members.is_empty() {
        values.insert("members".to_owned(), Value::List(group.members.clone()));
    }
    values
}

fn new_group(resource: &Resource) -> NewGroup {
    let members = resource.list("members");
    NewGroup {
        name: resource.name.clone(),
        gid: resource.get("gid").and_then(id),
        members: texts(&merged(&members, &[], false)),
        system: resource.flag("system"),
        allowdupe: resource.flag("allowdupe"),
    }
}

fn id(value: &Value) -> Option<u32> {
    value.as_int().and_then(|number| u32::try_from(number).ok())
}

fn texts(value: &Value) -> Vec<String> {
    value.as_list().into_iter().map(str::to_owned).collect()
}
