//! `cron`: a job in a user's crontab, marked by Puppet's `# Puppet Name:` line.

use std::path::{Path, PathBuf};

use muster_system::error::found_or_none;
use muster_system::{FileAttributes, FileEntryKind};

use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::plan::{PropertyChange, ResourcePlan, ResourceState, is_absent};
use crate::providers::account_names;
use crate::providers::parsed_file::crontab::{self, CrontabFormat, TIME_FIELDS, UNMANAGED_PREFIX};
use crate::providers::parsed_file::{FileRecord, HeaderFilter, ParsedFile};
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::resource_type::{
    AutoRequire, BoundResource, CatalogResources, ResourceContext, ResourceType, find_instance,
};
use crate::schema::AttributeKind::{List, Text, Word};
use crate::schema::{TypeSchema, parameter, presence_property, property, provider_parameter};

const CRONTAB_DIRECTORY: &str = "/var/spool/cron/crontabs";
const SPECIAL_TIMES: &[&str] =
    &["reboot", "yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly", "absent"];
const DAY_NAMES: &str = "sunday monday tuesday wednesday thursday friday saturday";
const MONTH_NAMES: &str =
    "january february march april may june july august september october november december";

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "cron",
    doc: "A cron job of a user.",
    namevar: "name",
    attributes: &[
        presence_property("Whether the job exists."),
        property("command", Text, "The command line."),
        property("special", Word(SPECIAL_TIMES), "A keyword instead of the five time fields."),
        property("minute", List, "Minutes 0 to 59, ranges or steps; `absent` means every minute.")
            .split_at_commas(),
        property("hour", List, "Hours 0 to 23.").split_at_commas(),
        property("weekday", List, "Days 0 to 7 (0 and 7 are Sunday), or names of days.")
            .split_at_commas(),
        property("month", List, "Months 1 to 12, or names of months.").split_at_commas(),
        property("monthday", List, "Days 1 to 31.").split_at_commas(),
        property("environment", List, "Environment settings `NAME=value`, written before the job."),
        property("user", Text, "The user that runs the job; defaults to root."),
        property("target", Text, "The user whose crontab has the job; defaults to `user`."),
        provider_parameter(&["crontab"]),
        parameter("name", Text, "The name in the marker line of the crontab."),
    ],
};

#[derive(Debug)]
pub struct CronResourceType;

impl ResourceType for CronResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, mut resource: Resource) -> Result<Resource> {
        for name in ["name", "command", "user", "target"] {
            if resource.get_text(name).is_some_and(|text| text.contains(['\n', '\r'])) {
                let problem = "has several lines, must be one";
                return Err(EngineError::invalid_value(&resource, name, problem));
            }
        }
        if let Some(command) = resource.get_text("command").map(|command| command.trim().to_owned())
        {
            resource.set_value("command", command);
        }
        for name in ["user", "target"] {
            let is_invalid = |user: &str| {
                user.is_empty() || user.starts_with(['-', '.']) || user.contains(['/', ' '])
            };
            if resource.get_text(name).is_some_and(is_invalid) {
                let problem = "must be the name of a user";
                return Err(EngineError::invalid_value(&resource, name, problem));
            }
        }
        resource.check_items("environment", "`NAME=value` on one line", |setting| {
            let is_one_line = !setting.contains(['\n', '\r']);
            setting == "absent" || (is_one_line && CrontabFormat::is_setting(setting))
        })?;
        check_times(resource)
    }

    fn read_state(&self, resource: &BoundResource<'_>) -> Result<ResourceState> {
        let mut state = crontab_file(resource)?.read_state(resource)?;
        if !state.is_absent() {
            set_crontab_user(&mut state.values, crontab_user(resource));
        }
        Ok(state)
    }

    /// As in Puppet, the order of the settings does not matter.
    fn plan(&self, resource: &Resource, state: &ResourceState) -> ResourcePlan {
        let mut plan = ResourcePlan::compare(&SCHEMA, resource, state);
        let sorted = |values: Option<&ResourceValue>| {
            let mut settings = values.map(ResourceValue::as_list).unwrap_or_default();
            settings.sort_unstable();
            settings.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        plan.changes.retain(|change| {
            change.property != "environment"
                || sorted(change.from.as_ref()) != sorted(Some(&change.to))
        });
        plan
    }

    fn apply_change(
        &self,
        cx: &ResourceContext<'_>,
        plan: &ResourcePlan,
        _: &PropertyChange,
    ) -> Result<()> {
        crontab_file(&cx.bind(&plan.resource))?.apply_plan(cx, plan)
    }

    /// The owner of the crontab.
    fn autorequires(&self, resource: &Resource, _: &dyn CatalogResources) -> Vec<AutoRequire> {
        let user = resource.get_text("user");
        user.map(|user| ("user", user.to_owned())).into_iter().collect()
    }

    fn find(&self, cx: &ResourceContext<'_>, title: &str) -> Result<ResourceState> {
        find_instance(self, cx, title)
    }

    fn list_instances(&self, cx: &ResourceContext<'_>) -> Result<Vec<(String, ResourceValues)>> {
        let all = Resource::without_values(&SCHEMA, "*")?;
        let crontabs = found_or_none(cx.system.read_dir(Path::new(CRONTAB_DIRECTORY)))
            .during(&all, "listing crontabs")?;
        let mut instances = Vec::new();
        for name in crontabs.into_iter().flatten() {
            let path = Path::new(CRONTAB_DIRECTORY).join(&name);
            let found = cx.system.metadata(&path);
            let found = found.during(&all, "listing crontabs")?;
            if found.is_none_or(|found| found.kind != FileEntryKind::File) {
                continue;
            }
            let file = ParsedFile::new(&SCHEMA, &CrontabFormat, path);
            let jobs = file
                .list_instances(cx.system)
                .during(&all, format_args!("reading the crontab of {name}"))?;
            instances.extend(jobs.into_iter().map(|(title, mut values)| {
                set_crontab_user(&mut values, &name);
                (title, values)
            }));
        }
        Ok(instances)
    }
}

fn crontab_user(resource: &Resource) -> &str {
    resource.get_text("target").or(resource.get_text("user")).unwrap_or("root")
}

/// Sets the location of a job as this type expresses it: by user, not by path.
fn set_crontab_user(values: &mut ResourceValues, crontab: &str) {
    for name in ["user", "target"] {
        values.insert(name.to_owned(), crontab.into());
    }
}

/// On the local machine `crontab` installs the file and notifies cron; in a scratch root the file is written directly.
fn crontab_file(resource: &BoundResource<'_>) -> Result<ParsedFile> {
    let cx = resource.cx;
    let user = crontab_user(resource);
    let path = PathBuf::from(CRONTAB_DIRECTORY).join(user);
    let is_local = cx.system.root() == Path::new("/");
    let installer = ["crontab", "-u", user, "-"].map(str::to_owned).to_vec();
    let account = account_names::find_user(cx, user).during(resource, "looking up the user")?;
    let owner = account_names::settable_owner(cx.system, account.as_ref())
        .during(resource, "inspecting the root directory")?;
    Ok(ParsedFile {
        created: FileAttributes { mode: Some(0o600), ..owner },
        directory: Some(FileAttributes::with_mode(0o1730)),
        installer: is_local.then_some(installer),
        strip_header: is_local.then_some(crontab::without_installed_header as HeaderFilter),
        unnamed_match: Some(is_same_job),
        ..ParsedFile::new(&SCHEMA, &CrontabFormat, path)
    })
}

/// An unmarked job with the same command and the desired times is treated as this resource, as in Puppet.
fn is_same_job(resource: &Resource, found: &FileRecord) -> bool {
    let same = |field: &&str| match (resource.get(field), found.values.get(*field)) {
        (None, _) => true,
        (Some(desired), None) => is_absent(desired),
        (desired, found) => found == desired,
    };
    let command = resource.get("command");
    found.name.starts_with(UNMANAGED_PREFIX)
        && command.is_some()
        && found.values.get("command") == command
        && TIME_FIELDS.iter().chain(&["special"]).all(same)
}

/// Validates the five time fields; converts names to numbers and `*` to `absent`.
fn check_times(mut resource: Resource) -> Result<Resource> {
    let special = resource.get_text("special").is_some_and(|word| word != "absent");
    for (field, low, high, names) in [
        ("minute", 0, 59, ""),
        ("hour", 0, 23, ""),
        ("weekday", 0, 7, DAY_NAMES),
        ("month", 1, 12, MONTH_NAMES),
        ("monthday", 1, 31, ""),
    ] {
        let Some(ResourceValue::List(words)) = resource.get(field) else { continue };
        let mut times = Vec::new();
        for word in words.iter().flat_map(|word| word.split(',')) {
            let time = parse_time(word.trim(), low, high, names).ok_or_else(|| {
                let problem = format!(
                    "contains `{word}`, must be {low} to {high}, a range `1-5` or a step `*/2`"
                );
                EngineError::invalid_value(&resource, field, problem)
            })?;
            times.push(time);
        }
        if times.iter().any(|time| time == "absent") {
            times = vec!["absent".to_owned()];
        } else if special {
            let problem = "is given together with `special`; choose one";
            return Err(EngineError::invalid_value(&resource, field, problem));
        }
        resource.set_value(field, ResourceValue::List(times));
    }
    if special {
        for field in TIME_FIELDS {
            resource.set_value(field, ResourceValue::List(Vec::new()));
        }
    } else if TIME_FIELDS.iter().any(|field| resource.get(field).is_some()) {
        resource.values.entry("special".to_owned()).or_insert("absent".into());
    }
    Ok(resource)
}

fn parse_time(word: &str, low: u32, high: u32, names: &str) -> Option<String> {
    if matches!(word, "*" | "absent") {
        return Some("absent".to_owned());
    }
    let number =
        |text: &str| text.parse::<u32>().ok().filter(|number| (low..=high).contains(number));
    let by_word = || {
        let word = word.to_lowercase();
        let is_name = |name: &str| name == word || (word.len() == 3 && name.starts_with(&word));
        let index = names.split_whitespace().position(is_name)?;
        u32::try_from(index).ok().map(|index| index + low)
    };
    if let Some(number) = number(word).or_else(by_word) {
        return Some(number.to_string());
    }
    let (range, step) = word.split_once('/').unwrap_or((word, "1"));
    let is_valid_step = step.parse::<u32>().is_ok_and(|step| step > 0);
    let is_valid_range = match range.split_once('-') {
        Some((from, to)) => number(from)? <= number(to)?,
        None => range == "*",
    };
    (is_valid_step && is_valid_range).then(|| word.to_owned())
}
