//! `resources`: what the machine has of a type, and the catalog does not, is removed.

use std::path::Path;

use super::all;
use crate::error::EngineError;
use crate::munge::{munge, nearest};
use crate::plan::{Change, Plan, State};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, Generates, ResourceType, Siblings};
use crate::schema::{Attribute, Kind, METAPARAMETERS, RELATIONS, Schema};

static SCHEMA: Schema = Schema {
    type_name: "resources",
    doc: "All resources of a type: with `purge`, those that the catalog does not have are removed.",
    namevar: "name",
    attributes: &[
        Attribute::parameter("name", Kind::Text, "The type: `host`, `user`, `cron`, ..."),
        Attribute::parameter(
            "purge",
            Kind::Bool,
            "Whether what the catalog does not have is removed.",
        )
        .or("false"),
        Attribute::parameter(
            "unless_system_user",
            Kind::Text,
            "For users: whether those of the system stay, or up to which number users stay.",
        ),
        Attribute::parameter("unless_uid", Kind::List, "For users: numbers that stay."),
    ],
};

/// Users that are never removed, whatever their number.
const NEVER: [&str; 6] = ["root", "nobody", "bin", "noaccess", "daemon", "sys"];
/// The greatest number of a system's user where `login.defs` says nothing.
const SYSTEM: i64 = 499;
/// Longest `login.defs` that is read, in bytes.
const LIMIT: u64 = 1024 * 1024;
/// What says where a resource is, and is needed to find it again.
const PLACES: [&str; 2] = ["target", "user"];

/// The type.
#[derive(Debug)]
pub struct Resources;

impl ResourceType for Resources {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        let known = known(&resource)?;
        if resource.flag("purge") {
            let listed = !matches!(resource.name.as_str(), "ssh_authorized_key" | "file");
            if known.schema().attribute("ensure").is_none() || !listed {
                let problem = format!(
                    "is set, and resources of type {} cannot be purged: the machine has no list of them",
                    resource.name
                );
                return Err(EngineError::invalid(&resource, "purge", problem));
            }
        }
        let number = |text: &&str| text.parse::<i64>().is_err();
        if let Some(bad) = resource.list("unless_uid").into_iter().find(number) {
            let problem = format!("contains `{bad}`, must be numbers of users");
            return Err(EngineError::invalid(&resource, "unless_uid", problem));
        }
        match resource.text("unless_system_user") {
            Some(word) if !matches!(word, "true" | "false") && word.parse::<i64>().is_err() => {
                let problem = format!("is `{word}`, must be true, false or the number of a user");
                Err(EngineError::invalid(
                    &resource,
                    "unless_system_user",
                    problem,
                ))
            }
            _ => Ok(resource),
        }
    }

    fn read(&self, _: &Cx<'_>, _: &Resource) -> Result<State, EngineError> {
        Ok(State::default())
    }

    fn apply(&self, _: &Cx<'_>, _: &Plan, _: &Change) -> Result<(), EngineError> {
        Ok(())
    }

    fn generates(&self, resource: &Resource) -> Generates {
        if resource.flag("purge") {
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
        if !resource.flag("purge") {
            return Ok(Vec::new());
        }
        let known = known(resource)?;
        let spared = spared(cx, resource)?;
        let mut unwanted = Vec::new();
        for (title, found) in known.instances(cx)? {
            let gone = found.get("ensure").and_then(Value::as_text);
            let there = !matches!(gone, Some("absent" | "purged"));
            if there
                && siblings.find(&resource.name, &title).is_none()
                && !spared.has(&title, &found)
            {
                unwanted.push(absent(&*known, resource, &title, &found)?);
            }
        }
        Ok(unwanted)
    }
}

fn known(resource: &Resource) -> Result<Box<dyn ResourceType>, EngineError> {
    let types = all();
    let names: Vec<&str> = types.iter().map(|known| known.schema().type_name).collect();
    let suggestion = nearest(&resource.name, names.into_iter());
    types
        .into_iter()
        .find(|known| known.schema().type_name == resource.name)
        .ok_or_else(|| EngineError::UnknownType {
            name: resource.name.clone(),
            suggestion,
        })
}

/// Users that stay.
struct Spared {
    users: bool,
    up_to: Option<i64>,
    numbers: Vec<i64>,
}

impl Spared {
    fn has(&self, title: &str, found: &Values) -> bool {
        let Some(up_to) = self.up_to.filter(|_| self.users) else {
            return false;
        };
        let uid = found.get("uid").and_then(Value::as_int);
        NEVER.contains(&title) || uid.is_none_or(|uid| uid <= up_to || self.numbers.contains(&uid))
    }
}

fn spared(cx: &Cx<'_>, resource: &Resource) -> Result<Spared, EngineError> {
    let up_to = match resource.text("unless_system_user") {
        Some("false") => None,
        Some(number) if number != "true" => number.parse().ok(),
        _ => Some(greatest_of_the_system(cx, resource)?),
    };
    let numbers = resource.list("unless_uid").into_iter();
    Ok(Spared {
        users: resource.name == "user",
        up_to,
        numbers: numbers.filter_map(|number| number.parse().ok()).collect(),
    })
}

/// One below `UID_MIN` of `login.defs`.
fn greatest_of_the_system(cx: &Cx<'_>, resource: &Resource) -> Result<i64, EngineError> {
    let text = match cx.system.read(Path::new("/etc/login.defs"), LIMIT) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.is_not_found() => String::new(),
        Err(error) => {
            return Err(EngineError::during(resource, "reading /etc/login.defs")(
                error,
            ));
        }
    };
    let least = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("UID_MIN")).then(|| words.next()?.parse::<i64>().ok())?
    });
    Ok(least.map_or(SYSTEM, |least| least - 1))
}

/// The resource that must not be there: where it was found, and with what was said about all of them.
fn absent(
    known: &dyn ResourceType,
    resource: &Resource,
    title: &str,
    found: &Values,
) -> Result<Resource, EngineError> {
    let schema = known.schema();
    let mut words = serde_json::Map::from_iter([("ensure".to_owned(), "absent".into())]);
    for name in PLACES {
        if let (Some(_), Some(place)) = (
            schema.attribute(name),
            found.get(name).and_then(Value::as_text),
        ) {
            words.insert(name.to_owned(), place.into());
        }
    }
    let mut unwanted = known.check(munge(schema, title, &words)?)?;
    for name in METAPARAMETERS.iter().map(|attribute| attribute.name) {
        if let Some(value) = resource
            .get(name)
            .filter(|_| !RELATIONS.contains(&name) && name != "alias")
        {
            unwanted.values.insert(name.to_owned(), value.clone());
        }
    }
    Ok(unwanted)
}
