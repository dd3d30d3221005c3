//! `user`: an account. Does not manage its keys and files; the types `ssh_authorized_key` and `file` do.
//!
//! Puppet's order and words. Groups are compared as sets: with `membership => minimum` others may be there too.

use std::collections::BTreeSet;

use super::purge_keys;
use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::accounts::{
    self, NewUser, Password, User as Account, UserChange, dates, name,
};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, Generates, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

const BOOL: Kind = Kind::Bool;

static SCHEMA: Schema = Schema {
    type_name: "user",
    doc: "An account of the machine.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["present", "absent"]),
            "Whether the user exists.",
        )
        .or("present"),
        Attribute::property("home", Kind::Path, "Home directory."),
        Attribute::property(
            "uid",
            Kind::Int,
            "Number of the user; chosen by the machine if not given.",
        ),
        Attribute::property(
            "gid",
            Kind::Text,
            "Primary group, by name or number; it must exist.",
        ),
        Attribute::property("comment", Kind::Text, "Usually the full name."),
        Attribute::property(
            "shell",
            Kind::Path,
            "Login shell; it must exist and be executable.",
        ),
        Attribute::property(
            "password",
            Kind::Text,
            "Crypted password, as it stands in shadow.",
        )
        .secret(),
        Attribute::property(
            "password_min_age",
            Kind::Int,
            "Days before the password may be changed again; -1 for no rule.",
        ),
        Attribute::property(
            "password_max_age",
            Kind::Int,
            "Days after which the password must be changed; -1 for no rule.",
        ),
        Attribute::property(
            "password_warn_days",
            Kind::Int,
            "Days of warning before the password must be changed; -1 for no rule.",
        ),
        Attribute::property(
            "groups",
            Kind::List,
            "Supplementary groups by name; they must exist.",
        ),
        Attribute::property(
            "expiry",
            Kind::WordOr(&["absent"]),
            "Day on which the account expires, `YYYY-MM-DD`, or `absent` for never.",
        ),
        Attribute::parameter(
            "purge_ssh_keys",
            Kind::List,
            "Whether keys that the catalog does not have are removed: `true`, or in which files.",
        ),
        Attribute::parameter(
            "provider",
            Kind::Word(&["useradd"]),
            "How it is done; there is one way.",
        )
        .or("useradd"),
        Attribute::parameter("name", Kind::Text, "Login name."),
        Attribute::parameter(
            "membership",
            Kind::Word(&["inclusive", "minimum"]),
            "Whether `groups` are all groups of the user, or some of them.",
        )
        .or("minimum"),
        Attribute::parameter(
            "managehome",
            BOOL,
            "Whether the home directory is made and removed with the user.",
        )
        .or("false"),
        Attribute::parameter(
            "system",
            BOOL,
            "Whether a new user gets a number of the system's range.",
        )
        .or("false"),
        Attribute::parameter(
            "allowdupe",
            BOOL,
            "Whether the number may be another user's too.",
        )
        .or("false"),
        Attribute::parameter(
            "forcelocal",
            BOOL,
            "Whether only the machine's own files count, not a directory service.",
        )
        .or("false"),
    ],
};

/// The type.
#[derive(Debug)]
pub struct User;

impl ResourceType for User {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        purge_keys::check(&resource)?;
        if let Some(problem) = name::problem(&resource.name) {
            let problem = format!("is `{}`, {problem}", resource.name.escape_debug());
            return Err(EngineError::invalid(&resource, "name", problem));
        }
        for (attribute, problem) in problems(&resource) {
            if let Some(problem) = problem {
                return Err(EngineError::invalid(&resource, attribute, problem));
            }
        }
        // A number is the same however it was written.
        if let Some(gid) = resource.text("gid").and_then(|gid| gid.parse::<u32>().ok()) {
            resource
                .values
                .insert("gid".to_owned(), Value::Int(gid.into()));
        }
        Ok(resource)
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let accounts = accounts::of(cx.system, cx.cancel.clone());
        let local = resource.flag("forcelocal");
        let found = accounts
            .user(&resource.name, local)
            .map_err(|error| error.of(resource))?;
        let Some(found) = found else {
            return Ok(State::absent());
        };
        let mut values = values(&found);
        // A group given by name is compared by name, when it is the one.
        if let Some(wanted) = resource.text("gid") {
            let group = accounts
                .group(wanted, local)
                .map_err(|error| error.of(resource))?;
            if group.is_some_and(|group| group.gid == found.gid) {
                values.insert("gid".to_owned(), Value::from(wanted));
            }
        }
        Ok(State { values })
    }

    fn plan(&self, resource: &Resource, state: &State) -> Plan {
        let mut wanted = resource.clone();
        if let Some(groups) = resource.get("groups") {
            let found = state.get("groups").map(Value::as_list).unwrap_or_default();
            let keep = resource.text("membership") != Some("inclusive");
            let groups = merged(&groups.as_list(), &found, keep);
            wanted.values.insert("groups".to_owned(), groups);
        }
        let mut plan = Plan::compare(&SCHEMA, &wanted, state);
        for change in &mut plan.changes {
            if change.property == "groups" {
                *change = change.clone().joined(",");
            }
        }
        plan
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, change: &Change) -> Result<(), EngineError> {
        let accounts = accounts::of(cx.system, cx.cancel.clone());
        let resource = &plan.resource;
        let made = if change.property != "ensure" {
            let Some(change) = user_change(resource, change) else {
                return Ok(());
            };
            accounts.change_user(&resource.name, &change)
        } else if change.to.as_text() == Some("absent") {
            accounts.remove_user(&resource.name, resource.flag("managehome"))
        } else {
            accounts.create_user(&new_user(resource))
        };
        made.map_err(|error| error.of(resource))
    }

    fn generates(&self, resource: &Resource) -> Generates {
        if purge_keys::wanted(resource) {
            Generates::BeforeTheRun
        } else {
            Generates::Never
        }
    }

    fn generate(
        &self,
        cx: &Cx<'_>,
        resource: &Resource,
        siblings: &dyn Siblings,
    ) -> Result<Vec<Resource>, EngineError> {
        if purge_keys::wanted(resource) {
            purge_keys::generate(cx, resource, siblings)
        } else {
            Ok(Vec::new())
        }
    }

    /// Its groups: the primary one by name or number, the others by name.
    fn autorequires(&self, resource: &Resource, siblings: &dyn Siblings) -> Vec<Wanted> {
        let primary = match resource.get("gid") {
            Some(Value::Int(number)) => {
                let groups = siblings.of_type("group");
                let same =
                    |group: &&Resource| group.get("gid").and_then(Value::as_int) == Some(*number);
                groups
                    .into_iter()
                    .find(same)
                    .map(|group| group.name.clone())
            }
            name => name.and_then(Value::as_text).map(str::to_owned),
        };
        let others = resource.list("groups").into_iter().map(str::to_owned);
        primary
            .into_iter()
            .chain(others)
            .map(|group| ("group", group))
            .collect()
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(&SCHEMA, "*")?;
        let users = accounts::of(cx.system, cx.cancel.clone()).users();
        let users = users.map_err(|error| error.of(&all))?;
        Ok(users
            .iter()
            .map(|user| (user.name.clone(), values(user)))
            .collect())
    }
}

/// What is wrong with each value, if something is.
fn problems(resource: &Resource) -> Vec<(&'static str, Option<String>)> {
    let line = |name: &'static str| {
        let text = resource
            .text(name)
            .filter(|text| text.contains([':', '\n', '\r']));
        (
            name,
            text.map(|text| format!("is `{}`, must be one line without `:`", text.escape_debug())),
        )
    };
    let age = |name: &'static str| {
        let days = resource.get(name).and_then(Value::as_int);
        let bad = days.filter(|days| !(-1..=1_000_000).contains(days));
        (
            name,
            bad.map(|days| format!("is {days}, must be days from -1 to 1000000")),
        )
    };
    let secret = resource
        .text("password")
        .filter(|text| text.contains([':', '\n', '\r']));
    let uid = resource
        .get("uid")
        .and_then(Value::as_int)
        .filter(|uid| !is_id(*uid));
    let gid = resource.text("gid").filter(|gid| match gid.parse::<i64>() {
        Ok(number) => !is_id(number),
        Err(_) => name::problem(gid).is_some(),
    });
    let group = resource.list("groups");
    let group = group
        .into_iter()
        .find(|group| name::problem(group).is_some());
    let expiry = resource
        .text("expiry")
        .filter(|day| *day != "absent" && !is_expiry(day));
    vec![
        line("home"),
        line("comment"),
        line("shell"),
        age("password_min_age"),
        age("password_max_age"),
        age("password_warn_days"),
        (
            "password",
            secret.map(|_| "must be one line without `:`, as it stands in shadow".to_owned()),
        ),
        (
            "uid",
            uid.map(|uid| format!("is {uid}, must be from 0 to 4294967294")),
        ),
        (
            "gid",
            gid.map(|gid| {
                format!(
                    "is `{}`, must be the name or number of a group",
                    gid.escape_debug()
                )
            }),
        ),
        (
            "groups",
            group.map(|group| {
                format!(
                    "contains `{}`, must be names of groups, one each",
                    group.escape_debug()
                )
            }),
        ),
        (
            "expiry",
            expiry.map(|day| {
                format!(
                    "is `{}`, must be a day such as 2030-12-31, or absent",
                    day.escape_debug()
                )
            }),
        ),
    ]
}

/// All but the number that stands for none.
fn is_id(number: i64) -> bool {
    u32::try_from(number).is_ok_and(|id| id != u32::MAX)
}

/// shadow has no days before 1970, and 0 could be read as never.
fn is_expiry(day: &str) -> bool {
    dates::parse(day).is_some_and(|day| day > 0)
}

/// Sorted and without doubles, so that lists compare as sets.
pub(super) fn merged(wanted: &[&str], found: &[&str], keep: bool) -> Value {
    let mut names: BTreeSet<&str> = wanted
        .iter()
        .copied()
        .filter(|name| *name != "absent")
        .collect();
    names.extend(found.iter().filter(|_| keep));
    Value::List(names.into_iter().map(str::to_owned).collect())
}

/// All that is known about a user, as properties.
fn values(user: &Account) -> Values {
    let mut values = Values::from([
        ("ensure".to_owned(), Value::from("present")),
        ("home".to_owned(), Value::from(user.home.as_str())),
        ("uid".to_owned(), Value::Int(user.uid.into())),
        ("gid".to_owned(), Value::Int(user.gid.into())),
        ("comment".to_owned(), Value::from(user.comment.as_str())),
        ("shell".to_owned(), Value::from(user.shell.as_str())),
    ]);
    if !user.groups.is_empty() {
        values.insert("groups".to_owned(), Value::List(user.groups.clone()));
    }
    if let Some(shadow) = &user.shadow {
        values.insert("password".to_owned(), Value::from(shadow.password.expose()));
        values.insert("password_min_age".to_owned(), Value::Int(shadow.min_age));
        values.insert("password_max_age".to_owned(), Value::Int(shadow.max_age));
        values.insert(
            "password_warn_days".to_owned(),
            Value::Int(shadow.warn_days),
        );
        if let Some(day) = shadow.expiry.and_then(dates::render) {
            values.insert("expiry".to_owned(), Value::from(day));
        }
    }
    values
}

fn new_user(resource: &Resource) -> NewUser {
    let text = |name| resource.text(name).map(str::to_owned);
    let int = |name| resource.get(name).and_then(Value::as_int);
    let groups = resource.list("groups");
    NewUser {
        name: resource.name.clone(),
        uid: int("uid").and_then(|uid| u32::try_from(uid).ok()),
        gid: resource.get("gid").map(ToString::to_string),
        groups: merged(&groups, &[], false)
            .as_list()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        comment: text("comment"),
        home: text("home"),
        shell: text("shell"),
        password: text("password").map(Password::new),
        min_age: int("password_min_age"),
        max_age: int("password_max_age"),
        warn_days: int("password_warn_days"),
        expiry: text("expiry").filter(|day| day != "absent"),
        managehome: resource.flag("managehome"),
        system: resource.flag("system"),
        allowdupe: resource.flag("allowdupe"),
    }
}

fn user_change(resource: &Resource, change: &Change) -> Option<UserChange> {
    let text = || change.to.as_text().map(str::to_owned);
    let int = || change.to.as_int();
    Some(match change.property.as_str() {
        "home" => UserChange::Home(text()?),
        "uid" => UserChange::Uid(u32::try_from(int()?).ok()?, resource.flag("allowdupe")),
        "gid" => UserChange::Gid(change.to.to_string()),
        "comment" => UserChange::Comment(text()?),
        "shell" => UserChange::Shell(text()?),
        "password" => UserChange::Password(Password::new(text()?)),
        "password_min_age" => UserChange::MinAge(int()?),
        "password_max_age" => UserChange::MaxAge(int()?),
        "password_warn_days" => UserChange::WarnDays(int()?),
        "expiry" => UserChange::Expiry(text().filter(|day| day != "absent")),
        "groups" => {
            UserChange::Groups(change.to.as_list().into_iter().map(str::to_owned).collect())
        }
        _ => return None,
    })
}
