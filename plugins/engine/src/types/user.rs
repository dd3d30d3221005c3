//! `user`: an account. Keys and files are managed by the types `ssh_authorized_key` and `file`.
//!
//! Property order and messages are Puppet's. Groups are compared as sets: with `membership => minimum` additional groups are allowed.

use std::collections::BTreeSet;

use super::purge_keys;
use crate::error::{EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState, is_absent};
use crate::providers::accounts::choice::choose_provider;
use crate::providers::accounts::{
    AccountError, CryptedPassword, NewUser, UserAccount as Account, UserChange, account_name, dates,
};
use crate::resource::{Resource, ResourceValue, ResourceValues, name_values};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, GenerationPhase, ResourceContext, ResourceType,
};
use crate::schema::AttributeKind::{AbsolutePath, Int, List, Text, Word, WordOr};
use crate::schema::{
    TypeSchema, flag_parameter, parameter, presence_property, property, provider_parameter,
};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "user",
    doc: "A user account.",
    namevar: "name",
    attributes: &[
        presence_property("Whether the user exists."),
        property("home", AbsolutePath, "Home directory."),
        property("uid", Int, "The UID; chosen automatically by default."),
        property("gid", Text, "Primary group, by name or GID; it must exist."),
        property("comment", Text, "Comment, usually the full name."),
        property("shell", AbsolutePath, "Login shell; it must exist and be executable."),
        property("password", Text, "Encrypted password, in the format of `/etc/shadow`.")
            .with_hidden_value(),
        property(
            "password_min_age",
            Int,
            "Minimum days between password changes; -1 for no limit.",
        ),
        property(
            "password_max_age",
            Int,
            "Maximum days before the password must be changed; -1 for no limit.",
        ),
        property(
            "password_warn_days",
            Int,
            "Days of warning before the password must be changed; -1 for no warning.",
        ),
        property("groups", List, "Names of the supplementary groups; they must exist.")
            .split_at_commas(),
        property(
            "expiry",
            WordOr(&["absent"]),
            "Expiry date of the account, `YYYY-MM-DD`; `absent` for no expiry.",
        ),
        parameter(
            "purge_ssh_keys",
            List,
            "Whether to remove SSH keys that are not in the catalog: `true`, or the key files.",
        ),
        provider_parameter(&["useradd"]),
        parameter("name", Text, "Login name."),
        parameter(
            "membership",
            Word(&["inclusive", "minimum"]),
            "Whether `groups` is the complete list (`inclusive`) or not (`minimum`).",
        )
        .with_default("minimum"),
        flag_parameter(
            "managehome",
            "Whether the home directory is created and removed with the user.",
        ),
        flag_parameter("system", "Whether a new user gets a UID of the system range."),
        flag_parameter("allowdupe", "Whether the UID may be in use by another user."),
        flag_parameter("forcelocal", "Whether to use only local files, not a directory service."),
    ],
};

#[derive(Debug)]
pub struct UserResourceType;

impl ResourceType for UserResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        purge_keys::check_purge_value(&resource)?;
        check_account_name(&resource)?;
        check_attributes(&resource)?;
        // Normalizes a numeric gid.
        if let Some(gid) = resource.get_text("gid").and_then(|gid| gid.parse::<u32>().ok()) {
            resource.set_value("gid", ResourceValue::Int(gid.into()));
        }
        Ok(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let accounts = choose_provider(resource.cx);
        let local = resource.get_flag("forcelocal");
        let to_error = |error: AccountError| error.into_engine_error(resource);
        let Some(found) = accounts.find_user(&resource.name, local).map_err(to_error)? else {
            return Ok(ResourceState::absent());
        };
        let mut values = user_values(&found);
        // If the desired group is given by name and matches, report it by name.
        if let Some(desired_group) = resource.get_text("gid") {
            let group = accounts.find_group(desired_group, local).map_err(to_error)?;
            if group.is_some_and(|group| group.gid == found.gid) {
                values.insert("gid".to_owned(), ResourceValue::from(desired_group));
            }
        }
        Ok(ResourceState { values })
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let keep = resource.get_text("membership") != Some("inclusive");
        let desired = with_merged_list(resource, state, "groups", keep);
        let mut plan = ResourcePlan::compare(&SCHEMA, &desired, state);
        let groups = plan.changes.iter_mut().filter(|change| change.property == "groups");
        groups.for_each(|change| change.join_lists(","));
        plan
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let accounts = choose_provider(cx);
        let resource = &plan.resource;
        let result = if change.property != "ensure" {
            accounts.change_user(&resource.name, &user_change(resource, change))
        } else if change.to.as_text() == Some("absent") {
            accounts.remove_user(&resource.name, resource.get_flag("managehome"))
        } else {
            accounts.create_user(&new_user(resource))
        };
        result.map_err(|error| error.into_engine_error(resource))
    }

    fn generation_phase(&self, resource: &Resource) -> GenerationPhase {
        GenerationPhase::BeforeTheRun.only_if(purge_keys::is_purge_requested(resource))
    }

    fn generate_resources(
        &self,
        resource: &BoundResource<'_>,
        siblings: &dyn CatalogResources,
    ) -> Result<Vec<Resource>> {
        purge_keys::generate_absent_keys(resource, siblings)
    }

    /// Its groups: the primary one by name or gid, the others by name.
    fn autorequires(
        &self,
        resource: &Resource,
        siblings: &dyn CatalogResources,
    ) -> Vec<AutoRequire> {
        let primary = match resource.get("gid") {
            Some(ResourceValue::Int(number)) => {
                let groups = siblings.resources_of_type("group");
                let same = |group: &&Resource| group.get_int("gid") == Some(*number);
                groups.into_iter().find(same).map(|group| group.name.clone())
            }
            name => name.and_then(ResourceValue::as_text).map(str::to_owned),
        };
        let others = resource.get_list("groups").into_iter().map(str::to_owned);
        primary.into_iter().chain(others).map(|group| ("group", group)).collect()
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let users = choose_provider(cx).list_users();
        let users = users.map_err(|error| error.into_engine_error(&all))?;
        Ok(users.iter().map(|user| (user.name.clone(), user_values(user))).collect())
    }
}

pub(super) fn check_account_name(resource: &Resource) -> Result<()> {
    account_name::invalid_name_reason(&resource.name).map_or(Ok(()), |reason| {
        let problem = format!("is `{}`, {reason}", resource.name.escape_debug());
        Err(EngineError::invalid_value(resource, "name", problem))
    })
}

pub(super) fn is_account_name(name: &str) -> bool {
    account_name::invalid_name_reason(name).is_none()
}

/// Validates a UID or GID: any but the reserved one that means "none".
pub(super) fn check_id(resource: &Resource, name: &str) -> Result<()> {
    match resource.get_int(name).filter(|id| !is_id(*id)) {
        Some(id) => {
            let problem = format!("is {id}, must be from 0 to 4294967294");
            Err(EngineError::invalid_value(resource, name, problem))
        }
        None => Ok(()),
    }
}

fn is_id(number: i64) -> bool {
    u32::try_from(number).is_ok_and(|id| id != u32::MAX)
}

fn check_attributes(resource: &Resource) -> Result<()> {
    let is_field = |text: &str| !text.contains([':', '\n', '\r']);
    for name in ["home", "comment", "shell"] {
        resource.check_text(name, "one line without `:`", is_field)?;
    }
    for name in ["password_min_age", "password_max_age", "password_warn_days"] {
        let days = resource.get_int(name).filter(|days| !(-1..=1_000_000).contains(days));
        if let Some(days) = days {
            let problem = format!("is {days}, must be a number of days from -1 to 1000000");
            return Err(EngineError::invalid_value(resource, name, problem));
        }
    }
    // Does not show the password.
    if !resource.get_text("password").is_none_or(is_field) {
        let problem = "must be one line without `:`, in the format of /etc/shadow";
        return Err(EngineError::invalid_value(resource, "password", problem));
    }
    check_id(resource, "uid")?;
    resource.check_text("gid", "the name or GID of a group", |gid| {
        gid.parse::<i64>().map_or_else(|_| is_account_name(gid), is_id)
    })?;
    resource.check_items("groups", "a list of group names", is_account_name)?;
    resource.check_text("expiry", "a date such as 2030-12-31, or absent", |day| {
        day == "absent" || is_expiry(day)
    })
}

/// shadow has no days before 1970, and 0 may be interpreted as never.
fn is_expiry(day: &str) -> bool {
    dates::parse_day(day).is_some_and(|day| day > 0)
}

/// Sorted and deduplicated, so that lists compare as sets.
pub(super) fn merge_lists(desired: &[&str], found: &[&str]) -> Vec<String> {
    let names = desired.iter().filter(|name| **name != "absent").chain(found);
    names.collect::<BTreeSet<_>>().into_iter().map(|name| (*name).to_owned()).collect()
}

/// The resource with its desired list as a set; with `keep` the names found are part of it.
pub(super) fn with_merged_list(
    resource: &Resource,
    state: &ResourceState,
    name: &str,
    keep: bool,
) -> Resource {
    let mut desired = resource.clone();
    if let Some(list) = resource.get(name) {
        let found = state.get(name).filter(|_| keep).map(ResourceValue::as_list);
        let merged = merge_lists(&list.as_list(), &found.unwrap_or_default());
        desired.set_value(name, ResourceValue::List(merged));
    }
    desired
}

pub(super) fn value_to_texts(value: &ResourceValue) -> Vec<String> {
    value.as_list().into_iter().map(str::to_owned).collect()
}

pub(super) fn value_to_id(value: &ResourceValue) -> Option<u32> {
    value.as_int().and_then(|number| u32::try_from(number).ok())
}

fn user_values(user: &Account) -> ResourceValues {
    let mut values = name_values([
        ("ensure", "present".into()),
        ("home", user.home.as_str().into()),
        ("uid", ResourceValue::Int(user.uid.into())),
        ("gid", ResourceValue::Int(user.gid.into())),
        ("comment", user.comment.as_str().into()),
        ("shell", user.shell.as_str().into()),
    ]);
    if !user.groups.is_empty() {
        values.insert("groups".to_owned(), ResourceValue::List(user.groups.clone()));
    }
    if let Some(shadow) = &user.shadow {
        values.extend(name_values([
            ("password", shadow.password.expose().into()),
            ("password_min_age", ResourceValue::Int(shadow.min_age)),
            ("password_max_age", ResourceValue::Int(shadow.max_age)),
            ("password_warn_days", ResourceValue::Int(shadow.warn_days)),
        ]));
        if let Some(day) = shadow.expiry.and_then(dates::render_day) {
            values.insert("expiry".to_owned(), day.into());
        }
    }
    values
}

fn new_user(resource: &Resource) -> NewUser {
    let text = |name| resource.get_text(name).map(str::to_owned);
    NewUser {
        name: resource.name.clone(),
        uid: resource.get("uid").and_then(value_to_id),
        gid: resource.get("gid").map(ToString::to_string),
        groups: merge_lists(&resource.get_list("groups"), &[]),
        comment: text("comment"),
        home: text("home"),
        shell: text("shell"),
        password: text("password").map(CryptedPassword::new),
        min_age: resource.get_int("password_min_age"),
        max_age: resource.get_int("password_max_age"),
        warn_days: resource.get_int("password_warn_days"),
        expiry: text("expiry").filter(|day| day != "absent"),
        managehome: resource.get_flag("managehome"),
        system: resource.get_flag("system"),
        allowdupe: resource.get_flag("allowdupe"),
    }
}

fn user_change(resource: &Resource, change: &PropertyChange) -> UserChange {
    let value = match &change.to {
        ResourceValue::List(texts) => texts.join(","),
        absent if change.property == "expiry" && is_absent(absent) => String::new(),
        value => value.to_string(),
    };
    if change.property == "password" {
        return UserChange::Password(CryptedPassword::new(value));
    }
    let allowdupe = resource.get_flag("allowdupe");
    UserChange::Property { name: change.property.clone(), value, allowdupe }
}
