//! `cron`: a job in a user's crontab, marked by Puppet's `# Puppet Name:` line.

use std::path::{Path, PathBuf};

use muster_system::{Attributes, FileKind};

use crate::error::EngineError;
use crate::plan::{Change, Plan, State};
use crate::providers::names;
use crate::providers::parsed_file::crontab::{CrontabFormat, TIMES, UNMANAGED};
use crate::providers::parsed_file::{FOUND_AS, ParsedFile};
use crate::resource::{Resource, Value, Values};
use crate::resource_type::{Cx, ResourceType, Siblings, Wanted};
use crate::schema::{Attribute, Kind, Schema};

const SPOOL: &str = "/var/spool/cron/crontabs";
const SPECIALS: &[&str] = &[
    "reboot", "yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly", "absent",
];
const DAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

static SCHEMA: Schema = Schema {
    type_name: "cron",
    doc: "A job that cron runs for a user.",
    namevar: "name",
    attributes: &[
        Attribute::property(
            "ensure",
            Kind::Word(&["present", "absent"]),
            "Whether the job is there.",
        )
        .or("present"),
        Attribute::property("command", Kind::Text, "What is run."),
        Attribute::property(
            "special",
            Kind::Word(SPECIALS),
            "A word in the place of the five times.",
        ),
        Attribute::property(
            "minute",
            Kind::List,
            "0 to 59, ranges, steps; `absent` is every minute.",
        ),
        Attribute::property("hour", Kind::List, "0 to 23."),
        Attribute::property(
            "weekday",
            Kind::List,
            "0 to 7, both ends Sunday, or a day's name.",
        ),
        Attribute::property("month", Kind::List, "1 to 12, or a month's name."),
        Attribute::property("monthday", Kind::List, "1 to 31."),
        Attribute::property(
            "environment",
            Kind::List,
            "Settings `NAME=value` before the job.",
        ),
        Attribute::property(
            "user",
            Kind::Text,
            "Whose job it is; root when nothing is said.",
        ),
        Attribute::property(
            "target",
            Kind::Text,
            "The name of the crontab; the user when nothing is said.",
        ),
        Attribute::parameter(
            "provider",
            Kind::Word(&["crontab"]),
            "How it is done; there is one way.",
        )
        .or("crontab"),
        Attribute::parameter("name", Kind::Text, "What the marker line calls it."),
    ],
};

/// The type.
#[derive(Debug)]
pub struct Cron;

impl ResourceType for Cron {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource, EngineError> {
        for name in ["name", "command", "user", "target"] {
            if resource
                .text(name)
                .is_some_and(|text| text.contains(['\n', '\r']))
            {
                return Err(EngineError::invalid(
                    &resource,
                    name,
                    "has several lines, must be one",
                ));
            }
        }
        if let Some(command) = resource
            .text("command")
            .map(|command| command.trim().to_owned())
        {
            resource
                .values
                .insert("command".to_owned(), Value::Text(command));
        }
        for name in ["user", "target"] {
            let bad = |who: &str| {
                who.is_empty() || who.starts_with(['-', '.']) || who.contains(['/', ' '])
            };
            if resource.text(name).is_some_and(bad) {
                return Err(EngineError::invalid(
                    &resource,
                    name,
                    "must be the name of a user",
                ));
            }
        }
        let setting = |setting: &&str| *setting != "absent" && !CrontabFormat::is_setting(setting);
        if let Some(bad) = resource.list("environment").into_iter().find(setting) {
            let problem = format!(
                "contains `{}`, must be `NAME=value` on one line",
                bad.escape_debug()
            );
            return Err(EngineError::invalid(&resource, "environment", problem));
        }
        check_times(resource)
    }

    fn read(&self, cx: &Cx<'_>, resource: &Resource) -> Result<State, EngineError> {
        let file = file(cx, resource)?;
        let failing = EngineError::during(resource, format!("reading {}", file.path.display()));
        let document = file.load(cx.system).map_err(failing)?;
        let adopted = || {
            document
                .records()
                .find(|record| is_same_job(resource, &record.name, &record.values))
        };
        let Some(record) = document.find(&resource.name).or_else(adopted) else {
            return Ok(State::absent());
        };
        let mut state = file.state(record);
        placed(&mut state.values, crontab(resource));
        if record.name != resource.name {
            state
                .values
                .insert(FOUND_AS.to_owned(), Value::Text(record.name.clone()));
        }
        Ok(state)
    }

    fn apply(&self, cx: &Cx<'_>, plan: &Plan, _: &Change) -> Result<(), EngineError> {
        file(cx, &plan.resource)?.apply(cx, &SCHEMA, plan)
    }

    /// The user whose job it is.
    fn autorequires(&self, resource: &Resource, _: &dyn Siblings) -> Vec<Wanted> {
        let user = resource.text("user");
        user.map(|user| ("user", user.to_owned()))
            .into_iter()
            .collect()
    }

    fn find(&self, cx: &Cx<'_>, title: &str) -> Result<State, EngineError> {
        let found = self
            .instances(cx)?
            .into_iter()
            .find(|(name, _)| name == title);
        Ok(found.map_or_else(State::absent, |(_, values)| State { values }))
    }

    fn instances(&self, cx: &Cx<'_>) -> Result<Vec<(String, Values)>, EngineError> {
        let all = Resource::named(&SCHEMA, "*")?;
        let crontabs = match cx.system.read_dir(Path::new(SPOOL)) {
            Ok(names) => names,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(EngineError::during(&all, "listing crontabs")(error)),
        };
        let mut instances = Vec::new();
        for name in crontabs {
            let path = Path::new(SPOOL).join(&name);
            let found = cx
                .system
                .metadata(&path)
                .map_err(EngineError::during(&all, "listing crontabs"))?;
            if found.is_none_or(|found| found.kind != FileKind::File) {
                continue;
            }
            let file = ParsedFile::plain(&CrontabFormat, path);
            let jobs = file.instances(cx.system).map_err(EngineError::during(
                &all,
                format!("reading the crontab of {name}"),
            ))?;
            instances.extend(jobs.into_iter().map(|(title, mut values)| {
                placed(&mut values, &name);
                (title, values)
            }));
        }
        Ok(instances)
    }
}

fn crontab(resource: &Resource) -> &str {
    resource
        .text("target")
        .or(resource.text("user"))
        .unwrap_or("root")
}

/// Where a job is, in the words of this type: by user, not by path.
fn placed(values: &mut Values, crontab: &str) {
    for name in ["user", "target"] {
        values.insert(name.to_owned(), Value::from(crontab));
    }
}

/// On the machine that we run on, `crontab` installs and tells cron; in a scratch root the file is all there is.
fn file(cx: &Cx<'_>, resource: &Resource) -> Result<ParsedFile, EngineError> {
    let user = crontab(resource);
    let path = PathBuf::from(SPOOL).join(user);
    let here = cx.system.root() == Path::new("/");
    let installer = ["crontab", "-u", user, "-"].map(str::to_owned).to_vec();
    let known =
        names::user(cx, user).map_err(EngineError::during(resource, "looking the user up"))?;
    let owner = names::settable_owner(cx.system, known.as_ref()).map_err(EngineError::during(
        resource,
        "looking at the machine's root",
    ))?;
    Ok(ParsedFile {
        created: Attributes {
            mode: Some(0o600),
            ..owner
        },
        directory: Some(Attributes {
            mode: Some(0o1730),
            ..Attributes::default()
        }),
        installer: here.then_some(installer),
        ..ParsedFile::plain(&CrontabFormat, path)
    })
}

/// An unmarked job with the same command at the same times is the one that is meant, as in Puppet.
fn is_same_job(resource: &Resource, name: &str, found: &Values) -> bool {
    let same = |field: &&str| match (resource.get(field), found.get(*field)) {
        (Some(desired), found) => {
            found.map_or_else(|| crate::plan::is_absent(desired), |found| found == desired)
        }
        (None, found) => found.is_none(),
    };
    let command = resource
        .get("command")
        .is_some_and(|command| found.get("command") == Some(command));
    name.starts_with(UNMANAGED) && command && TIMES.iter().chain(&["special"]).all(same)
}

/// Judges the five times, turns names into numbers and `*` into `absent`.
fn check_times(mut resource: Resource) -> Result<Resource, EngineError> {
    let special = resource
        .text("special")
        .is_some_and(|word| word != "absent");
    for (field, low, high, names) in [
        ("minute", 0, 59, &[][..]),
        ("hour", 0, 23, &[]),
        ("weekday", 0, 7, &DAYS),
        ("month", 1, 12, &MONTHS),
        ("monthday", 1, 31, &[]),
    ] {
        let Some(Value::List(words)) = resource.get(field) else {
            continue;
        };
        let mut times = Vec::new();
        for word in words.iter().flat_map(|word| word.split(',')) {
            let time = time(word.trim(), low, high, names).ok_or_else(|| {
                let problem = format!(
                    "contains `{word}`, must be {low} to {high}, a range `1-5` or a step `*/2`"
                );
                EngineError::invalid(&resource, field, problem)
            })?;
            times.push(time);
        }
        if times.iter().any(|time| time == "absent") {
            times = vec!["absent".to_owned()];
        } else if special {
            return Err(EngineError::invalid(
                &resource,
                field,
                "is given together with `special`; choose one",
            ));
        }
        resource.values.insert(field.to_owned(), Value::List(times));
    }
    if special {
        for field in TIMES {
            resource
                .values
                .insert(field.to_owned(), Value::List(Vec::new()));
        }
    } else if TIMES.iter().any(|field| resource.get(field).is_some()) {
        resource
            .values
            .entry("special".to_owned())
            .or_insert_with(|| Value::from("absent"));
    }
    Ok(resource)
}

fn time(word: &str, low: u32, high: u32, names: &[&str]) -> Option<String> {
    if matches!(word, "*" | "absent") {
        return Some("absent".to_owned());
    }
    let number = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|number| (low..=high).contains(number))
    };
    let by_word = || {
        let word = word.to_lowercase();
        let at = names
            .iter()
            .position(|name| *name == word || (word.len() == 3 && name.starts_with(&word)))?;
        u32::try_from(at).ok().map(|at| at + low)
    };
    if let Some(number) = number(word).or_else(by_word) {
        return Some(number.to_string());
    }
    let (range, step) = word
        .split_once('/')
        .map_or((word, None), |(range, step)| (range, Some(step)));
    let good_step = step.is_none_or(|step| step.parse::<u32>().is_ok_and(|step| step > 0));
    let good_range = match range.split_once('-') {
        Some((from, to)) => number(from)? <= number(to)?,
        None => range == "*" && step.is_some(),
    };
    (good_step && good_range).then(|| word.to_owned())
}
