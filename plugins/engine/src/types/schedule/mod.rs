//! `schedule`: when resources that name it may be changed. Changes nothing itself; the run asks [`Schedule::allows`].

mod window;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::EngineError;
use crate::munge::munge;
use crate::plan::{Change, Plan, State};
use crate::resource::{Resource, Value};
use crate::resource_type::{Cx, ResourceType};
use crate::schema::{Attribute, Kind, Schema};
pub use window::Window;
use window::{Period, Range, weekday};

static SCHEMA: Schema = Schema {
    type_name: "schedule",
    doc: "Times at which the resources that name it may be changed.",
    namevar: "name",
    attributes: &[
        Attribute::parameter(
            "name",
            Kind::Text,
            "What `schedule` of a resource calls it.",
        ),
        Attribute::parameter(
            "range",
            Kind::List,
            "Hours of the day, such as `2 - 4:30` or over midnight `22:00 - 04:00`.",
        ),
        Attribute::parameter(
            "period",
            Kind::Word(&["hourly", "daily", "weekly", "monthly", "never"]),
            "How often; in every run, when it is not given.",
        ),
        Attribute::parameter(
            "periodmatch",
            Kind::Word(&["number", "distance"]),
            "Whether another hour (day, ...) is enough, or a whole one must have passed.",
        )
        .or("distance"),
        Attribute::parameter("repeat", Kind::Int, "How many times in a period.").or("1"),
        Attribute::parameter(
            "weekday",
            Kind::List,
            "Days by name or as 0 (Sunday) to 6; with a range over midnight, the day on which it begins.",
        ),
    ],
};

/// The schedules that are there without being declared.
const ALWAYS: [(&str, &str, i64); 6] = [
    ("puppet", "hourly", 2),
    ("hourly", "hourly", 1),
    ("daily", "daily", 1),
    ("weekly", "weekly", 1),
    ("monthly", "monthly", 1),
    ("never", "never", 1),
];

/// The type.
#[derive(Debug)]
pub struct Schedule;

impl Schedule {
    /// The schedule of that name that is there without being declared, as Puppet has it.
    pub fn always(name: &str) -> Option<Resource> {
        let (name, period, repeat) = ALWAYS.iter().find(|(known, ..)| *known == name)?;
        let words = serde_json::Map::from_iter([
            ("period".to_owned(), (*period).into()),
            ("repeat".to_owned(), (*repeat).into()),
        ]);
        munge(&SCHEMA, name, &words).ok()
    }

    /// Whether the schedule, a resource of this type, lets another resource be changed now that was last looked at
    /// then; `None` is never.
    pub fn allows(
        schedule: &Resource,
        checked: Option<Timestamp>,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Result<bool, EngineError> {
        window(schedule).map(|window| window.allows(checked, now, zone))
    }
}

impl ResourceType for Schedule {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource, EngineError> {
        window(&resource)?;
        Ok(resource)
    }

    fn read(&self, _: &Cx<'_>, _: &Resource) -> Result<State, EngineError> {
        Ok(State::default())
    }

    fn apply(&self, _: &Cx<'_>, _: &Plan, _: &Change) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The values as one that can be asked.
fn window(resource: &Resource) -> Result<Window, EngineError> {
    let range = |text: &str| {
        Range::parse(text).ok_or_else(|| {
            let problem =
                format!("contains `{text}`, must be two times of a day such as `2 - 4:30`");
            EngineError::invalid(resource, "range", problem)
        })
    };
    let day = |text: &str| {
        weekday(text).ok_or_else(|| {
            let problem = format!("contains `{text}`, must be a day's name or 0 (Sunday) to 6");
            EngineError::invalid(resource, "weekday", problem)
        })
    };
    let repeat = resource.get("repeat").and_then(Value::as_int).unwrap_or(1);
    let by_number = resource.text("periodmatch") == Some("number");
    if repeat < 1 || (by_number && repeat != 1) {
        let problem =
            format!("is {repeat}, must be 1 or more, and 1 unless `periodmatch` is `distance`");
        return Err(EngineError::invalid(resource, "repeat", problem));
    }
    let days: Vec<i8> = resource
        .list("weekday")
        .into_iter()
        .map(day)
        .collect::<Result<_, _>>()?;
    let ranges: Vec<Range> = resource
        .list("range")
        .into_iter()
        .map(range)
        .collect::<Result<_, _>>()?;
    Ok(Window {
        ranges,
        days,
        period: resource.text("period").and_then(Period::parse),
        by_number,
        repeat,
    })
}
