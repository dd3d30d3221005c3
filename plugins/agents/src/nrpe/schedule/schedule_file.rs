//! Parses a file of schedules, `checks.d/*.toml`. Reads no files.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::filter::NodeFilter;
use muster_contract::nrpe::{is_check_name, is_command_name};
use serde::Deserialize;
use toml::{Table, Value};

use super::flapping::FlapThresholds;

const MAX_CHECKS: usize = 500;
/// Shortest and longest interval.
const INTERVAL_LIMITS: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_hours(24 * 31));
const MAX_TIMEOUT: Duration = Duration::from_hours(1);
const MAX_ATTEMPTS: u32 = 100;
/// Attempts without a setting, as in the examples of Nagios.
const DEFAULT_ATTEMPTS: u32 = 3;
const MAX_NOTES_CHARS: usize = 1024;
/// Most characters of a value in an error.
const MAX_SHOWN_CHARS: usize = 80;

#[derive(Debug, Clone)]
pub struct ScheduledCheck {
    pub name: String,
    /// The command of `nrpe.cfg`.
    pub command: String,
    /// Time between two runs.
    pub interval: Duration,
    /// Time between two runs while the state is soft.
    pub retry_interval: Duration,
    /// Results in a row that make a problem hard.
    pub max_attempts: u32,
    /// Whether the runs are spread over the interval.
    pub splay: bool,
    /// The nodes that run it; all without a condition.
    pub filter: NodeFilter,
    pub enabled: bool,
    /// Thresholds of flap detection; `None` if it is off.
    pub flapping: Option<FlapThresholds>,
    /// Time limit; the plugin's when absent.
    pub timeout: Option<Duration>,
    pub notes: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error("it is not TOML: {0}")]
    Syntax(String),
    #[error("unknown key `{0}`; a file has tables [[checks]] only")]
    UnknownKey(String),
    #[error("it has {0} checks; at most {MAX_CHECKS} are allowed, divide it into several files")]
    TooMany(usize),
    #[error("{entry}: {problem}")]
    Entry {
        /// The name of the entry, or its number.
        entry: String,
        /// The key, its value, and what to do.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    name: String,
    command: String,
    interval: Value,
    retry_interval: Option<Value>,
    max_attempts: Option<i64>,
    splay: Option<bool>,
    filter: Option<String>,
    select: Option<String>,
    enabled: Option<bool>,
    flap_detection: Option<bool>,
    flap_low: Option<f64>,
    flap_high: Option<f64>,
    timeout: Option<Value>,
    notes: Option<String>,
}

/// Parses a file. One bad entry refuses the whole file.
pub fn parse_schedule_file(text: &str) -> Result<Vec<ScheduledCheck>, ScheduleError> {
    let mut table: Table = toml::from_str(text)
        .map_err(|error| ScheduleError::Syntax(one_line(&error.to_string())))?;
    let entries = match table.remove("checks") {
        None => Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(other) => {
            let problem = format!("is {}; write [[checks]] before each check", shown(&other));
            return Err(ScheduleError::Entry { entry: "checks".to_owned(), problem });
        }
    };
    if let Some(key) = table.keys().next() {
        return Err(ScheduleError::UnknownKey(shorten(key)));
    }
    if entries.len() > MAX_CHECKS {
        return Err(ScheduleError::TooMany(entries.len()));
    }
    let mut names = BTreeSet::new();
    let mut checks = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let name = entry.get("name").and_then(Value::as_str);
        let entry_name = match name {
            Some(name) => format!("check `{}`", shorten(name)),
            None => format!("check number {}", index + 1),
        };
        let check = parse_entry(entry)
            .and_then(|check| {
                if names.insert(check.name.clone()) {
                    Ok(check)
                } else {
                    Err("the file has this name twice; rename one of them".to_owned())
                }
            })
            .map_err(|problem| ScheduleError::Entry { entry: entry_name, problem })?;
        checks.push(check);
    }
    Ok(checks)
}

fn parse_entry(entry: Value) -> Result<ScheduledCheck, String> {
    let raw: RawCheck =
        entry.try_into().map_err(|error: toml::de::Error| one_line(error.message()))?;
    if !is_check_name(&raw.name) {
        let problem = "use 1 to 50 letters, digits, - and _";
        return Err(format!("name = \"{}\": {problem}", shorten(&raw.name)));
    }
    if !is_command_name(&raw.command) {
        let problem = "use 1 to 255 letters, digits, blanks, and _.:,@%+/#()*?~^$-";
        return Err(format!("command = \"{}\": {problem}", shorten(&raw.command)));
    }
    let interval = parse_interval("interval", &raw.interval)?;
    let retry = raw.retry_interval.as_ref().map(|value| parse_interval("retry_interval", value));
    let timeout = raw.timeout.as_ref().map(|value| parse_time("timeout", value)).transpose()?;
    if let Some(timeout) = timeout
        && !(Duration::from_secs(1)..=MAX_TIMEOUT).contains(&timeout)
    {
        return Err(format!("timeout = {} s: use 1 s to 1 h", timeout.as_secs()));
    }
    let attempts = raw.max_attempts.unwrap_or(DEFAULT_ATTEMPTS.into());
    let max_attempts = u32::try_from(attempts).ok().filter(|n| (1..=MAX_ATTEMPTS).contains(n));
    let notes = raw.notes.unwrap_or_default();
    if notes.chars().count() > MAX_NOTES_CHARS {
        return Err(format!("notes: use at most {MAX_NOTES_CHARS} characters"));
    }
    Ok(ScheduledCheck {
        interval,
        retry_interval: retry.transpose()?.unwrap_or(interval),
        max_attempts: max_attempts
            .ok_or_else(|| format!("max_attempts = {attempts}: use 1 to {MAX_ATTEMPTS}"))?,
        splay: raw.splay.unwrap_or(true),
        filter: parse_filter(raw.filter.as_deref(), raw.select.as_deref())?,
        enabled: raw.enabled.unwrap_or(true),
        flapping: parse_thresholds(raw.flap_detection, raw.flap_low, raw.flap_high)?,
        name: raw.name,
        command: raw.command,
        timeout,
        notes,
    })
}

fn parse_thresholds(
    detection: Option<bool>,
    low: Option<f64>,
    high: Option<f64>,
) -> Result<Option<FlapThresholds>, String> {
    let default = FlapThresholds::default();
    let (low, high) = (low.unwrap_or(default.low), high.unwrap_or(default.high));
    for (key, value) in [("flap_low", low), ("flap_high", high)] {
        if !(0.0..=100.0).contains(&value) {
            return Err(format!("{key} = {value}: use a percentage from 0.0 to 100.0"));
        }
    }
    if low >= high {
        return Err(format!("flap_low = {low}: use a value below flap_high, which is {high}"));
    }
    Ok(detection.unwrap_or(true).then_some(FlapThresholds { low, high }))
}

/// The nodes: words as of `rpc find -W`, and an expression as of `-S`. Data sources are refused: they would run at each evaluation.
fn parse_filter(words: Option<&str>, select: Option<&str>) -> Result<NodeFilter, String> {
    let mut filter = NodeFilter::default();
    if let Some(words) = words {
        filter = filter.with_words(words).map_err(|error| {
            format!("filter = \"{}\": {}", shorten(words), one_line(&error.to_string()))
        })?;
    }
    if let Some(select) = select {
        let refuse = |problem: &str| format!("select = \"{}\": {problem}", shorten(select));
        filter =
            filter.with_select(select).map_err(|error| refuse(&one_line(&error.to_string())))?;
        if filter.select().is_some_and(|select| !select.data_lookups().is_empty()) {
            return Err(refuse("data sources are not evaluated here; use facts and classes"));
        }
    }
    Ok(filter)
}

fn parse_interval(key: &str, value: &Value) -> Result<Duration, String> {
    let time = parse_time(key, value)?;
    let (shortest, longest) = INTERVAL_LIMITS;
    if (shortest..=longest).contains(&time) {
        return Ok(time);
    }
    Err(format!("{key} = {}: use 1 second to 31 days", shown(value)))
}

/// A number of seconds, or a text with a unit.
fn parse_time(key: &str, value: &Value) -> Result<Duration, String> {
    let problem = || {
        let help = "use seconds as a number, or a text with a unit: s, m, h or d, as in \"5m\"";
        format!("{key} = {}: {help}", shown(value))
    };
    let seconds = match value {
        Value::Integer(seconds) => u64::try_from(*seconds).ok(),
        Value::String(text) => parse_unit(text),
        _ => None,
    };
    seconds.map(Duration::from_secs).ok_or_else(problem)
}

fn parse_unit(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return None,
    };
    let number = text.strip_suffix(unit)?;
    // `parse` accepts a sign.
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn shown(value: &Value) -> String {
    shorten(&value.to_string())
}

fn shorten(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// A text without line breaks and control characters.
fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{ScheduledCheck, parse_schedule_file};
    use crate::nrpe::schedule::flapping::FlapThresholds;

    fn one(more: &str) -> Result<ScheduledCheck, String> {
        let text = format!("[[checks]]\nname = \"load\"\ncommand = \"check_load\"\n{more}");
        let mut checks = parse_schedule_file(&text).map_err(|error| error.to_string())?;
        Ok(checks.remove(0))
    }

    #[test]
    fn entry_has_defaults_and_all_keys() {
        let check = one("interval = \"5m\"\n").unwrap();
        assert_eq!((check.name.as_str(), check.command.as_str()), ("load", "check_load"));
        assert_eq!(check.retry_interval, Duration::from_mins(5));
        assert_eq!((check.max_attempts, check.splay, check.enabled), (3, true, true));
        assert_eq!(check.flapping, Some(FlapThresholds { low: 20.0, high: 30.0 }));
        assert!(check.filter.is_empty() && check.timeout.is_none());
        let check = one(
            "interval = 60\nretry_interval = \"10s\"\nmax_attempts = 1\nsplay = false\nenabled = false\n\
             filter = \"os.family=debian\"\nselect = \"not apache\"\nflap_low = 5.0\nflap_high = 50.0\n\
             timeout = \"1m\"\nnotes = \"text\"\n",
        )
        .unwrap();
        assert_eq!((check.interval.as_secs(), check.retry_interval.as_secs()), (60, 10));
        assert_eq!(check.timeout, Some(Duration::from_mins(1)));
        assert_eq!(check.filter.facts().len(), 1);
        assert!(check.filter.select().is_some() && !check.splay && !check.enabled);
        assert!(one("interval = 60\nflap_detection = false\n").unwrap().flapping.is_none());
        assert!(parse_schedule_file("").unwrap().is_empty());
    }

    #[test]
    fn error_names_entry_value_and_remedy() {
        for (more, expected) in [
            ("", "check `load`: missing field `interval`"),
            ("interval = 0\n", "check `load`: interval = 0: use 1 second to 31 days"),
            ("interval = -5\n", "interval = -5: use seconds as a number"),
            ("interval = \"5 m\"\n", "interval = \"5 m\": use seconds as a number"),
            ("interval = 60\nretry_interval = \"x\"\n", "retry_interval = \"x\": use"),
            ("interval = 60\nmax_attempts = 0\n", "max_attempts = 0: use 1 to 100"),
            ("interval = 60\ntimeout = 0\n", "timeout = 0 s: use 1 s to 1 h"),
            ("interval = 60\nintervall = 5\n", "unknown field `intervall`"),
            ("interval = 60\nfilter = \"os.family=\"\n", "filter = \"os.family=\": "),
            ("interval = 60\nselect = \"and\"\n", "select = \"and\": "),
            (
                "interval = 60\nselect = \"nrpe('x').exitcode = 0\"\n",
                "data sources are not evaluated here",
            ),
            ("interval = 60\nflap_low = 40.0\n", "flap_low = 40: use a value below flap_high"),
            ("interval = 60\nflap_high = 101.0\n", "flap_high = 101: use a percentage"),
            (
                "interval = 60\n[[checks]]\nname = \"a b\"\ncommand = \"x\"\ninterval = 1\n",
                "name = \"a b\": use 1 to 50",
            ),
            (
                "interval = 60\n[[checks]]\nname = \"load\"\ncommand = \"x\"\ninterval = 1\n",
                "twice",
            ),
            (
                "interval = 60\n[[checks]]\ncommand = \"x\"\n",
                "check number 2: missing field `name`",
            ),
            ("interval = 60\n[other]\nx = 1\n", "unknown key `other`"),
            ("interval = \n", "it is not TOML: "),
        ] {
            let error = one(more).unwrap_err();
            assert!(error.contains(expected), "{more}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        assert!(
            parse_schedule_file("checks = 1\n").unwrap_err().to_string().contains("[[checks]]")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_with_one_line(text in "(\\[\\[checks\\]\\]\n)?([a-z_]{1,10} = .{0,20}\n){0,6}") {
            if let Err(error) = parse_schedule_file(&text) {
                let error = error.to_string();
                prop_assert!(!error.is_empty() && !error.chars().any(char::is_control), "{}", error);
            }
        }
    }
}
