//! `schedule`: time windows in which resources that name it may be changed. Has no effect itself; the run calls
//! [`ScheduleResourceType::allows_change`].

mod window;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::error::{EngineError, Result};
use crate::munge::munge_resource;
use crate::resource::Resource;
use crate::resource_type::ResourceType;
use crate::schema::AttributeKind::{Int, List, Text, Word};
use crate::schema::{TypeSchema, parameter};
pub use window::ScheduleWindow;
use window::{SchedulePeriod, ScheduleTimeRange, parse_weekday};

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "schedule",
    doc: "The times at which resources with this schedule may be changed.",
    namevar: "name",
    attributes: &[
        parameter("name", Text, "The name, as used in `schedule` of a resource."),
        parameter(
            "range",
            List,
            "Times of day such as `2 - 4:30`, or across midnight `22:00 - 04:00`.",
        ).split_at_commas(),
        parameter(
            "period",
            Word(&["hourly", "daily", "weekly", "monthly", "never"]),
            "How often resources are applied; in every run by default.",
        ),
        parameter(
            "periodmatch",
            Word(&["number", "distance"]),
            "`number`: once per calendar hour (day, ...); `distance`: a full period must pass.",
        )
        .with_default("distance"),
        parameter("repeat", Int, "Number of times per period.").with_default("1"),
        parameter(
            "weekday",
            List,
            "Days by name or as 0 (Sunday) to 6; for a range across midnight, the day on which it begins.",
        ).split_at_commas(),
    ],
};

const PREDECLARED_SCHEDULES: [(&str, &str, i64); 6] = [
    ("puppet", "hourly", 2),
    ("hourly", "hourly", 1),
    ("daily", "daily", 1),
    ("weekly", "weekly", 1),
    ("monthly", "monthly", 1),
    ("never", "never", 1),
];

#[derive(Debug)]
pub struct ScheduleResourceType;

impl ScheduleResourceType {
    pub fn predeclared_schedule(name: &str) -> Option<Resource> {
        let (name, period, repeat) =
            PREDECLARED_SCHEDULES.iter().find(|(known, ..)| *known == name)?;
        let attributes = serde_json::Map::from_iter([
            ("period".to_owned(), (*period).into()),
            ("repeat".to_owned(), (*repeat).into()),
        ]);
        munge_resource(&SCHEMA, name, &attributes).ok()
    }

    /// Whether the schedule (a resource of this type) allows another resource to be changed now, given when that resource was last
    /// checked; `None` means never.
    pub fn allows_change(
        schedule: &Resource,
        checked: Option<Timestamp>,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Result<bool> {
        schedule_window(schedule).map(|window| window.allows_change(checked, now, zone))
    }
}

impl ResourceType for ScheduleResourceType {
    fn schema(&self) -> &'static TypeSchema {
        &SCHEMA
    }

    fn check(&self, resource: Resource) -> Result<Resource> {
        schedule_window(&resource)?;
        Ok(resource)
    }
}

fn schedule_window(resource: &Resource) -> Result<ScheduleWindow> {
    let expected = "a range of times such as `2 - 4:30`";
    resource.check_items("range", expected, |text| ScheduleTimeRange::parse(text).is_some())?;
    let expected = "the name of a day or 0 (Sunday) to 6";
    resource.check_items("weekday", expected, |text| parse_weekday(text).is_some())?;
    let repeat = resource.get_int("repeat").unwrap_or(1);
    let by_number = resource.get_text("periodmatch") == Some("number");
    if repeat < 1 || (by_number && repeat != 1) {
        let problem =
            format!("is {repeat}, must be 1 or more, and 1 unless `periodmatch` is `distance`");
        return Err(EngineError::invalid_value(resource, "repeat", problem));
    }
    let list = |name| resource.get_list(name).into_iter();
    Ok(ScheduleWindow {
        ranges: list("range").filter_map(ScheduleTimeRange::parse).collect(),
        days: list("weekday").filter_map(parse_weekday).collect(),
        period: resource.get_text("period").and_then(SchedulePeriod::parse),
        by_number,
        repeat,
    })
}
