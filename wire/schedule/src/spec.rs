//! A schedule as its author writes it: what runs, where and when. JSON, with every size bounded.

use std::num::NonZeroU32;

use muster_filter::NodeFilter;
use muster_wire::identity::SubjectName;
use muster_wire::unique::check_unique_keys;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ScheduleError;

/// Largest schedule as JSON, in bytes.
pub const MAX_SCHEDULE_BYTES: usize = 32 * 1024;
/// Shortest interval, in seconds.
pub const MIN_INTERVAL_SECONDS: u64 = 5;
/// Longest interval, in seconds: 31 days.
pub const MAX_INTERVAL_SECONDS: u64 = 31 * DAY_SECONDS;
/// Longest time over which the starts of a cron schedule are spread, in seconds: one day.
pub const MAX_SPREAD_SECONDS: u64 = DAY_SECONDS;
/// Longest time after which a start of a cron schedule is still made up, in seconds: 7 days.
pub const MAX_CATCH_UP_SECONDS: u64 = 7 * DAY_SECONDS;
/// Time after which a start of a cron schedule is still made up by default, in seconds: one hour.
pub const DEFAULT_CATCH_UP_SECONDS: u64 = 60 * 60;
/// Longest timeout of one run, in seconds: one day, the longest time to live of a request.
pub const MAX_TIMEOUT_SECONDS: u64 = DAY_SECONDS;
/// Most maintenance windows.
pub const MAX_WINDOWS: usize = 32;
/// Most blackouts.
pub const MAX_BLACKOUTS: usize = 64;
/// Longest reason of a blackout, in bytes.
pub(crate) const MAX_REASON_BYTES: usize = 256;
/// Longest cron expression, in bytes.
pub(crate) const MAX_CRON_BYTES: usize = 128;
/// Longest window, in bytes.
pub(crate) const MAX_WINDOW_BYTES: usize = 64;
/// Longest name of a time zone, in bytes.
pub(crate) const MAX_TIME_ZONE_BYTES: usize = 64;
/// Priority of scheduled runs in a permit pool: below that of runs that a person starts, which is 0.
pub const DEFAULT_PRIORITY: i8 = -10;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// A schedule: one action of one agent, the nodes that match a filter, and times. [`Self::compile`] validates it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The inputs of each request, in clear text.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// The nodes. It is evaluated on records, so it reads no data source.
    #[serde(default, skip_serializing_if = "NodeFilter::is_empty")]
    pub filter: NodeFilter,
    /// The interval in seconds. Each node runs once in each interval. Either this or `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// A cron expression of five fields, in the schedule's time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone of `cron`, `windows` and intervals of a day or more, as in the IANA database: `Europe/Berlin`. UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// With `cron`: the time in seconds over which the starts are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<u64>,
    /// Maintenance windows: `mon-fri 22:00-04:00`. Nothing starts outside them. None: always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<String>,
    /// Times in which nothing starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<ScheduleBlackout>,
    /// How many nodes may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroU32>,
    /// The permit pool of Puppet runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<SubjectName>,
    /// The priority in the permit pool; higher first.
    #[serde(default = "default_priority")]
    pub priority: i8,
    /// How late a start may be, in seconds. By default until the node's next turn, and one hour with `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<u64>,
    /// A node that ran within this time, in seconds, is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_if_ran_within: Option<u64>,
    /// The deadline of one run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// A time in which nothing starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBlackout {
    /// Begin, as RFC 3339.
    pub from: String,
    /// End, as RFC 3339.
    pub until: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

const fn default_priority() -> i8 {
    DEFAULT_PRIORITY
}

impl ScheduleSpec {
    /// Decodes a schedule. Refuses unknown fields, duplicate keys, and texts above [`MAX_SCHEDULE_BYTES`]. [`Self::compile`] checks the values.
    pub fn from_json(json: &[u8]) -> Result<Self, ScheduleError> {
        if json.len() > MAX_SCHEDULE_BYTES {
            return Err(ScheduleError::TooLarge { bytes: json.len() });
        }
        check_unique_keys(json).map_err(ScheduleError::Json)?;
        serde_json::from_slice(json).map_err(ScheduleError::Json)
    }

    /// The schedule as JSON.
    pub fn to_json(&self) -> Result<String, ScheduleError> {
        serde_json::to_string(self).map_err(ScheduleError::Json)
    }
}
