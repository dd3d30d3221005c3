//! `user`: an account. Keys and files are managed by the types `ssh_authorized_key` and `file`.
//!
//! Property order and messages are Puppet's. Groups are compared as sets: with `membership => minimum` additional groups are allowed.

use std::collections::BTreeSet;

use super::purge_keys;
use crate::error::{EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState};
use crate::providers::accounts::{
    self, CryptedPassword, NewUser, UserAccount as Account, UserChange, account_name, dates,
};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{
    AutoRequire, CatalogResources, GenerationPhase, ResourceContext, ResourceType,
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
        property("groups", List, "Names of the supplementary groups; they must exist."),
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

/// The resource type.
#[derive(Debug)]
pub struct UserResourceType;

impl ResourceType for UserResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        purge_keys::check_purge_value(&resource)?;
        if let Some(problem) = account_name::invalid_name_reason(&resource.name) {
            let problem = format!("is `{}`, {problem}", resource.name.escape_debug());
            return Err(EngineError::invalid_value(&resource, "name", problem));
        }
        for (attribute, problem) in find_problems(&resource) {
            if let Some(problem) = problem {
                return Err(EngineError::invalid_value(&resource, attribute, problem));
            }
        }
        // Normalizes a numeric gid.
        if let Some(gid) = resource.get_text("gid").and_then(|gid| gid.parse::<u32>().ok()) {
            resource.values.insert("gid".to_owned(), ResourceValue::Int(gid.into()));
        }
        Ok(resource)
    }

    fn read_state(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<ResourceState> {
        let accounts = accounts::choose_provider(cx.system, cx.cancel.clone());
        let local = resource.get_flag("forcelocal");
        let found = accounts
            .find_user(&resource.name, local)
            .map_err(|error| error.into_engine_error(resource))?;
        let Some(found) = found else {
            return Ok(ResourceState::absent());
        };
        let mut values = user_values(&found);
        // If the desired group is given by name and matches, report it by name.
        if let Some(desired_group) = resource.get_text("gid") {
            let group = accounts
                .find_group(desired_group, local)
                .map_err(|error| error.into_engine_error(resource))?;
            if group.is_some_and(|group| group.gid == found.gid) {
                values.insert("gid".to_owned(), ResourceValue::from(desired_group));
            }
        }
        Ok(ResourceState { values })
    }

    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let mut desired = resource.clone();
        if let Some(groups) = resource.get("groups") {
            let found = state.get("groups").map(ResourceValue::as_list).unwrap_or_default();
            let keep = resource.get_text("membership") != Some("inclusive");
            let groups = merge_lists(&groups.as_list(), &found, keep);
            desired.values.insert("groups".to_owned(), groups);
        }
        let mut plan = ResourcePlan::compare(&SCHEMA, &desired, state);
        for change in &mut plan.changes {
            if change.property == "groups" {
                *change = change.clone().with_list_delimiter(",");
            }
        }
        plan
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        change: &PropertyChange,
    ) -> Result<()> {
        let accounts = accounts::choose_provider(cx.system, cx.cancel.clone());
        let resource = &plan.resource;
        let result = if change.property != "ensure" {
            let Some(change) = user_change(resource, change) else {
                return Ok(());
            };
            accounts.change_user(&resource.name, &change)
        } else if change.to.as_text() == Some("absent") {
            accounts.remove_user(&resource.name, resource.get_flag("managehome"))
        } else {
            accounts.create_user(&new_user(resource))
        };
        result.map_err(|error| error.into_engine_error(resource))
    }

    fn generation_phase(&self, resource: &Resource) -> GenerationPhase {
        if purge_keys::is_purge_requested(resource) {
            GenerationPhase::BeforeTheRun
        } else {
            GenerationPhase::Never
        }
    }

    fn generate_resources(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        siblings: &dyn CatalogResources,
    ) -> Result<Vec<Resource>> {
        if purge_keys::is_purge_requested(resource) {
            purge_keys::generate_absent_keys(cx, resource, siblings)
        } else {
            Ok(Vec::new())
        }
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
                let same = |group: &&Resource| {
                    group.get("gid").and_then(ResourceValue::as_int) == Some(*number)
                };
                groups.into_iter().find(same).map(|group| group.name.clone())
            }
            name => name.and_then(ResourceValue::as_text).map(str::to_owned),
        };
        let others = resource.get_list("groups").into_iter().map(str::to_owned);
        primary.into_iter().chain(others).map(|group| ("group", group)).collect()
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let users = accounts::choose_provider(cx.system, cx.cancel.clone()).list_users();
        let users = users.map_err(|error| error.into_engine_error(&all))?;
        Ok(users.iter().map(|user| (user.name.clone(), user_values(user))).collect())
    }
}

/// Validation errors by attribute.
fn find_problems(resource: &Resource) -> Vec<(&'static str, Option<String>)> {
    let line = |name: &'static str| {
        let text = resource.get_text(name).filter(|text| text.contains([':', '\n', '\r']));
        (
            name,
            text.map(|text| format!("is `{}`, must be one line without `:`", text.escape_debug())),
        )
    };
    let age = |name: &'static str| {
        let days = resource.get(name).and_then(ResourceValue::as_int);
        let invalid = days.filter(|days| !(-1..=1_000_000).contains(days));
        (
            name,
            invalid.map(|days| format!("is {days}, must be a number of days from -1 to 1000000")),
        )
    };
    let secret = resource.get_text("password").filter(|text| text.contains([':', '\n', '\r']));
    let uid = resource.get("uid").and_then(ResourceValue::as_int).filter(|uid| !is_id(*uid));
    let gid = resource.get_text("gid").filter(|gid| match gid.parse::<i64>() {
        Ok(number) => !is_id(number),
        Err(_) => account_name::invalid_name_reason(gid).is_some(),
    });
    let group = resource.get_list("groups");
    let group = group.into_iter().find(|group| account_name::invalid_name_reason(group).is_some());
    let expiry = resource.get_text("expiry").filter(|day| *day != "absent" && !is_expiry(day));
    vec![
        line("home"),
        line("comment"),
        line("shell"),
        age("password_min_age"),
        age("password_max_age"),
        age("password_warn_days"),
        (
            "password",
            secret.map(|_| "must be one line without `:`, in the format of /etc/shadow".to_owned()),
        ),
        ("uid", uid.map(|uid| format!("is {uid}, must be from 0 to 4294967294"))),
        (
            "gid",
            gid.map(|gid| {
                format!("is `{}`, must be the name or GID of a group", gid.escape_debug())
            }),
        ),
        (
            "groups",
            group.map(|group| {
                format!("contains `{}`, must be a list of group names", group.escape_debug())
            }),
        ),
        (
            "expiry",
            expiry.map(|day| {
                format!("is `{}`, must be a date such as 2030-12-31, or absent", day.escape_debug())
            }),
        ),
    ]
}

/// Any id except the reserved one that means "none".
fn is_id(number: i64) -> bool {
    u32::try_from(number).is_ok_and(|id| id != u32::MAX)
}

/// shadow has no days before 1970, and 0 may be interpreted as never.
fn is_expiry(day: &str) -> bool {
    dates::parse_day(day).is_some_and(|day| day > 0)
}

/// Sorted and deduplicated, so that lists compare as sets.
pub(super) fn merge_lists(desired: &[&str], found: &[&str], keep: bool) -> ResourceValue {
    let mut names: BTreeSet<&str> =
        desired.iter().copied().filter(|name| *name != "absent").collect();
    names.extend(found.iter().filter(|_| keep));
    ResourceValue::List(names.into_iter().map(str::to_owned).collect())
}

pub(super) fn value_to_texts(value: &ResourceValue) -> Vec<String> {
    value.as_list().into_iter().map(str::to_owned).collect()
}

/// All data of a user as properties.
fn user_values(user: &Account) -> ResourceValues {
    let mut values = ResourceValues::from([
        ("ensure".to_owned(), ResourceValue::from("present")),
        ("home".to_owned(), ResourceValue::from(user.home.as_str())),
        ("uid".to_owned(), ResourceValue::Int(user.uid.into())),
        ("gid".to_owned(), ResourceValue::Int(user.gid.into())),
        ("comment".to_owned(), ResourceValue::from(user.comment.as_str())),
        ("shell".to_owned(), ResourceValue::from(user.shell.as_str())),
    ]);
    if !user.groups.is_empty() {
        values.insert("groups".to_owned(), ResourceValue::List(user.groups.clone()));
    }
    if let Some(shadow) = &user.shadow {
        let password = ResourceValue::from(shadow.password.expose());
        values.insert("password".to_owned(), password);
        for (name, days) in [
            ("password_min_age", shadow.min_age),
            ("password_max_age", shadow.max_age),
            ("password_warn_days", shadow.warn_days),
        ] {
            values.insert(name.to_owned(), ResourceValue::Int(days));
        }
        if let Some(day) = shadow.expiry.and_then(dates::render_day) {
            values.insert("expiry".to_owned(), ResourceValue::from(day));
        }
    }
    values
}

fn new_user(resource: &Resource) -> NewUser {
    let text = |name| resource.get_text(name).map(str::to_owned);
    let int = |name| resource.get(name).and_then(ResourceValue::as_int);
    let groups = resource.get_list("groups");
    NewUser {
        name: resource.name.clone(),
        uid: int("uid").and_then(|uid| u32::try_from(uid).ok()),
        gid: resource.get("gid").map(ToString::to_string),
        groups: value_to_texts(&merge_lists(&groups, &[], false)),
        comment: text("comment"),
        home: text("home"),
        shell: text("shell"),
        password: text("password").map(CryptedPassword::new),
        min_age: int("password_min_age"),
        max_age: int("password_max_age"),
        warn_days: int("password_warn_days"),
        expiry: text("expiry").filter(|day| day != "absent"),
        managehome: resource.get_flag("managehome"),
        system: resource.get_flag("system"),
        allowdupe: resource.get_flag("allowdupe"),
    }
}

fn user_change(resource: &Resource, change: &PropertyChange) -> Option<UserChange> {
    let text = || change.to.as_text().map(str::to_owned);
    let int = || change.to.as_int();
    Some(match change.property.as_str() {
        "home" => UserChange::Home(text()?),
        "uid" => UserChange::Uid(u32::try_from(int()?).ok()?, resource.get_flag("allowdupe")),
        "gid" => UserChange::Gid(change.to.to_string()),
        "comment" => UserChange::Comment(text()?),
        "shell" => UserChange::Shell(text()?),
        "password" => UserChange::Password(CryptedPassword::new(text()?)),
        "password_min_age" => UserChange::MinAge(int()?),
        "password_max_age" => UserChange::MaxAge(int()?),
        "password_warn_days" => UserChange::WarnDays(int()?),
        "expiry" => UserChange::Expiry(text().filter(|day| day != "absent")),
        "groups" => UserChange::Groups(value_to_texts(&change.to)),
        _ => return None,
    })
}
