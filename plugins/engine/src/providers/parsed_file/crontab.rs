//! Format of a user's crontab: settings, jobs, and Puppet's marker line before managed jobs.

use super::{FileRecord, IncompleteRecord, RecordFormat};
use crate::resource::{ResourceValue, ResourceValues};

const NAME_MARKER: &str = "# Puppet Name: ";
/// Name prefix of jobs without a marker.
pub const UNMANAGED_PREFIX: &str = "unmanaged:";
/// The five time fields in line order.
pub const TIME_FIELDS: [&str; 5] = ["minute", "hour", "monthday", "month", "weekday"];

/// `# Puppet Name: x`, settings, and the job.
#[derive(Debug)]
pub struct CrontabFormat;

impl CrontabFormat {
    /// Whether the line is a setting, `NAME=value`.
    pub fn is_setting(line: &str) -> bool {
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        !line.contains(['\n', '\r'])
            && line.split_once('=').is_some_and(|(name, _)| is_name(name.trim()))
    }
}

impl RecordFormat for CrontabFormat {
    /// A job without a marker.
    fn parse_line(&self, line: &str) -> Option<FileRecord> {
        parse_job(line).map(|values| FileRecord { name: unmanaged_name(&values), values })
    }

    fn parse_record(&self, lines: &[&str]) -> (usize, Option<FileRecord>) {
        let Some((first, rest)) = lines.split_first() else {
            return (1, None);
        };
        let Some(name) = first.trim_start().strip_prefix(NAME_MARKER) else {
            return (1, self.parse_line(first));
        };
        let settings = rest.iter().take_while(|line| Self::is_setting(line));
        let settings: Vec<String> = settings.map(|line| (*line).to_owned()).collect();
        let Some(mut values) = rest.get(settings.len()).and_then(|line| parse_job(line)) else {
            return (1, None);
        };
        let count = settings.len() + 2;
        if !settings.is_empty() {
            values.insert("environment".to_owned(), ResourceValue::List(settings));
        }
        (count, Some(FileRecord { name: name.trim().to_owned(), values }))
    }

    fn render(&self, record: &FileRecord) -> Result<String, IncompleteRecord> {
        let command = record.require_text("command", "a job needs `command`")?;
        let mut lines = String::new();
        if !record.name.starts_with(UNMANAGED_PREFIX) {
            lines = format!("{NAME_MARKER}{}\n", record.name);
        }
        for setting in record.get_list("environment") {
            lines.extend([setting, "\n"]);
        }
        if let Some(special) = record.get_text("special") {
            return Ok(format!("{lines}@{special} {command}\n"));
        }
        for field in TIME_FIELDS {
            let is_set = record.values.contains_key(field);
            let times = if is_set { record.get_list(field).join(",") } else { "*".to_owned() };
            lines.extend([&*times, " "]);
        }
        Ok(format!("{lines}{command}\n"))
    }
}

/// Parses a job line. `*` is stored as no value.
fn parse_job(line: &str) -> Option<ResourceValues> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') || CrontabFormat::is_setting(line) {
        return None;
    }
    let mut values = ResourceValues::new();
    let mut rest = line;
    let mut next_word = || {
        let (word, tail) = rest.split_once(char::is_whitespace)?;
        rest = tail.trim_start();
        Some(word)
    };
    if let Some(special) = line.strip_prefix('@').and_then(|_| next_word()) {
        values.insert("special".to_owned(), ResourceValue::from(special.trim_start_matches('@')));
    } else {
        for field in TIME_FIELDS {
            let times = next_word()?;
            if times != "*" {
                let times = times.split(',').map(str::to_owned).collect();
                values.insert(field.to_owned(), ResourceValue::List(times));
            }
        }
    }
    values.insert("command".to_owned(), ResourceValue::from(rest));
    (!rest.is_empty()).then_some(values)
}

fn unmanaged_name(values: &ResourceValues) -> String {
    let command = values.get("command").and_then(ResourceValue::as_text).unwrap_or_default();
    format!("{UNMANAGED_PREFIX}{}", command.split_whitespace().collect::<Vec<_>>().join("_"))
}
