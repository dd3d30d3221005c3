//! Parses the lines of Puppet's JSON log (`--logdest FILE.jsonl --verbose --evaltrace`) into events.

use serde::{Deserialize, Serialize};

/// Largest line, in bytes; longer ones are skipped.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLine {
    /// Log level: `info`, `notice`, `warning`, `err`.
    pub level: String,
    pub message: String,
    /// Source of the message: `Puppet`, `Class[Main]`, `/Stage[main]/Main/File[/etc/motd]/ensure`.
    pub source: String,
    /// Tags of the resource that logged it.
    #[serde(default)]
    pub tags: Vec<String>,
    /// When it was logged, in ISO 8601.
    #[serde(default)]
    pub time: Option<String>,
    /// The file that an error is about.
    #[serde(default)]
    pub file: Option<String>,
    /// The line in this file, from 1.
    #[serde(default)]
    pub line: Option<u64>,
    /// The column in this line, from 1.
    #[serde(default, skip_serializing)]
    pub pos: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceEvent {
    /// The run has a catalog and begins to apply it.
    Applying,
    /// Evaluation of the source begins.
    Started,
    /// Evaluation of the source has ended.
    Evaluated,
    /// The source notifies the target.
    Scheduled {
        /// The target: `Exec[reload]`.
        target: String,
    },
    /// The source was refreshed.
    Triggered,
    /// The source would have been refreshed, but is in noop.
    WouldTrigger,
    /// The refresh of the source failed.
    RefreshFailed {
        /// Puppet's message.
        reason: String,
    },
    /// The source was skipped or failed, and Puppet drops its scheduled refresh.
    Unscheduled,
    /// The source needs no refresh any more: it was just started.
    NotNeeded,
    /// The source would have been changed, but is in noop.
    Noop,
    /// An error: level `err` or higher.
    Failed,
    /// Any other message of the source at the level of a change.
    Changed,
    /// Not relevant for refreshes.
    Other,
}

impl TraceLine {
    /// Parses a line without its newline; `None` if it is invalid.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b",").unwrap_or(line);
        if line.len() > MAX_LINE_BYTES {
            return None;
        }
        serde_json::from_slice(line).ok()
    }

    /// The message, with file, line and column in Puppet's format if they are known and the message does not contain them.
    pub fn located_message(&self) -> String {
        let number = |name: &str, value: Option<u64>| {
            value.map(|value| format!(", {name}: {value}")).unwrap_or_default()
        };
        match &self.file {
            Some(file) if !self.message.contains(file.as_str()) => format!(
                "{} (file: {file}{}{})",
                self.message,
                number("line", self.line),
                number("column", self.pos)
            ),
            _ => self.message.clone(),
        }
    }

    pub fn classify_line(&self) -> TraceEvent {
        let message = self.message.as_str();
        match self.level.as_str() {
            "info" => classify_info(message),
            "notice" if message.starts_with("Triggered '") => TraceEvent::Triggered,
            "notice" if message.starts_with("Would have triggered '") => TraceEvent::WouldTrigger,
            "notice" if message.ends_with("(noop)") => TraceEvent::Noop,
            "notice" => TraceEvent::Changed,
            "err" | "alert" | "emerg" | "crit" => match message.strip_prefix("Failed to call ") {
                Some(reason) => TraceEvent::RefreshFailed { reason: reason.to_owned() },
                None => TraceEvent::Failed,
            },
            _ => TraceEvent::Other,
        }
    }
}

fn classify_info(message: &str) -> TraceEvent {
    if message.starts_with("Starting to evaluate the resource") {
        return TraceEvent::Started;
    }
    if message.starts_with("Evaluated in ") {
        return TraceEvent::Evaluated;
    }
    if message.starts_with("Applying configuration version") {
        return TraceEvent::Applying;
    }
    if message.starts_with("Unscheduling all events on ") {
        return TraceEvent::Unscheduled;
    }
    if message.starts_with("Unscheduling ") {
        return TraceEvent::NotNeeded;
    }
    match message.strip_prefix("Scheduling ").and_then(|rest| rest.split_once(" of ")) {
        Some((_, target)) => TraceEvent::Scheduled { target: target.to_owned() },
        None => TraceEvent::Other,
    }
}

/// Splits a growing log into lines. Keeps an incomplete line until the rest arrives.
#[derive(Debug, Default)]
pub struct TraceSplitter {
    pending: Vec<u8>,
}

impl TraceSplitter {
    /// Appends bytes; returns the completed lines that can be parsed.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Vec<TraceLine> {
        self.pending.extend_from_slice(bytes);
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else {
            // Discard an overlong line without a newline to bound memory.
            if self.pending.len() > MAX_LINE_BYTES {
                self.pending.clear();
            }
            return Vec::new();
        };
        let tail = self.pending.split_off(end + 1);
        let complete = std::mem::replace(&mut self.pending, tail);
        complete.split(|byte| *byte == b'\n').filter_map(TraceLine::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{TraceEvent, TraceLine, TraceSplitter};

    fn step(level: &str, message: &str) -> TraceEvent {
        let json = serde_json::json!({"level": level, "message": message, "source": "Exec[x]", "tags": []});
        TraceLine::parse(json.to_string().as_bytes()).unwrap().classify_line()
    }

    /// Messages recorded from Puppet 7.23.
    #[test]
    fn classifies_messages_of_puppet() {
        assert_eq!(
            step("info", "Applying configuration version '1795314054'"),
            TraceEvent::Applying
        );
        assert_eq!(
            step("info", "Starting to evaluate the resource (1 of 17)"),
            TraceEvent::Started
        );
        assert_eq!(step("info", "Evaluated in 0.00 seconds"), TraceEvent::Evaluated);
        assert_eq!(
            step("info", "Scheduling refresh of Exec[a of b]"),
            TraceEvent::Scheduled { target: "Exec[a of b]".to_owned() }
        );
        assert_eq!(step("info", "Unscheduling all events on Class[Main]"), TraceEvent::Unscheduled);
        assert_eq!(step("info", "Unscheduling refresh on Service[x]"), TraceEvent::NotNeeded);
        assert_eq!(step("notice", "Triggered 'refresh' from 2 events"), TraceEvent::Triggered);
        assert_eq!(
            step("notice", "Would have triggered 'refresh' from 1 event"),
            TraceEvent::WouldTrigger
        );
        assert_eq!(
            step("notice", "current_value 'absent', should be 'file' (noop)"),
            TraceEvent::Noop
        );
        assert_eq!(step("notice", "executed successfully"), TraceEvent::Changed);
        assert_eq!(
            step("err", "Failed to call refresh: '/bin/false' returned 1 instead of one of [0]"),
            TraceEvent::RefreshFailed {
                reason: "refresh: '/bin/false' returned 1 instead of one of [0]".to_owned()
            }
        );
        assert_eq!(step("err", "change from 'x' to 'y' failed"), TraceEvent::Failed);
        assert_eq!(step("warning", "Skipping because of failed dependencies"), TraceEvent::Other);
    }

    #[test]
    fn lines_are_the_same_for_any_chunks() {
        let text = "{\"level\":\"info\",\"message\":\"a\\nb\",\"source\":\"ü\"}\ngarbage\n{\"level\":\"err\",\"message\":\"\",\"source\":\"x\"}\n{\"lev";
        let whole = TraceSplitter::default().push_bytes(text.as_bytes());
        assert_eq!(whole.len(), 2);
        let mut slow = TraceSplitter::default();
        let pieces: Vec<TraceLine> =
            text.as_bytes().chunks(3).flat_map(|piece| slow.push_bytes(piece)).collect();
        assert_eq!(pieces, whole);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8)) {
            let mut lines = TraceSplitter::default();
            for piece in pieces {
                for line in lines.push_bytes(&piece) {
                    let _ = line.classify_line();
                }
            }
        }
    }
}
