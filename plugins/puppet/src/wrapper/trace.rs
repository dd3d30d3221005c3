//! One line of Puppet's log in JSON (`--logdest FILE.jsonl --verbose --evaltrace`), and what it tells of a run.

use serde::Deserialize;

/// Largest line, in bytes; a longer one is left out.
pub const LINE: usize = 1024 * 1024;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// How loud: `info`, `notice`, `warning`, `err`.
    pub level: String,
    /// What is said.
    pub message: String,
    /// Who says it: `Puppet`, `Class[Main]`, `/Stage[main]/Main/File[/etc/motd]/ensure`.
    pub source: String,
}

/// What a line tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The run has a catalog and begins to apply it.
    Applying,
    /// The turn of the source has come.
    Started,
    /// The turn of the source is over.
    Evaluated,
    /// The source tells the target to refresh.
    Scheduled {
        /// The target: `Exec[reload]`.
        target: String,
    },
    /// The source was refreshed.
    Triggered,
    /// The source would have been refreshed, were it not in noop.
    WouldTrigger,
    /// The refresh of the source failed.
    RefreshFailed {
        /// Puppet's words.
        reason: String,
    },
    /// The source was skipped or failed, and what it was told is forgotten.
    Unscheduled,
    /// The source needs no refresh any more: it was just started.
    Needless,
    /// The source would have been changed, were it not in noop.
    Noop,
    /// Something louder than a notice.
    Failed,
    /// Anything else that the source says at the level of a change.
    Said,
    /// Of no matter here.
    Other,
}

impl Line {
    /// Reads a line without its newline; `None` when it is none.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b",").unwrap_or(line);
        if line.len() > LINE {
            return None;
        }
        serde_json::from_slice(line).ok()
    }

    /// What it tells.
    pub fn step(&self) -> Step {
        let message = self.message.as_str();
        match self.level.as_str() {
            "info" => info(message),
            "notice" if message.starts_with("Triggered '") => Step::Triggered,
            "notice" if message.starts_with("Would have triggered '") => Step::WouldTrigger,
            "notice" if message.ends_with("(noop)") => Step::Noop,
            "notice" => Step::Said,
            "err" | "alert" | "emerg" | "crit" => match message.strip_prefix("Failed to call ") {
                Some(reason) => Step::RefreshFailed {
                    reason: reason.to_owned(),
                },
                None => Step::Failed,
            },
            _ => Step::Other,
        }
    }
}

fn info(message: &str) -> Step {
    if message.starts_with("Starting to evaluate the resource") {
        return Step::Started;
    }
    if message.starts_with("Evaluated in ") {
        return Step::Evaluated;
    }
    if message.starts_with("Applying configuration version") {
        return Step::Applying;
    }
    if message.starts_with("Unscheduling all events on ") {
        return Step::Unscheduled;
    }
    if message.starts_with("Unscheduling ") {
        return Step::Needless;
    }
    match message
        .strip_prefix("Scheduling ")
        .and_then(|rest| rest.split_once(" of "))
    {
        Some((_, target)) => Step::Scheduled {
            target: target.to_owned(),
        },
        None => Step::Other,
    }
}

/// Cuts a log that grows into lines. A line that is not whole yet stays for later.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The lines that these bytes complete, those that can be understood.
    pub fn add(&mut self, bytes: &[u8]) -> Vec<Line> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            // A line without an end is not kept for ever.
            if self.rest.len() > LINE {
                self.rest.clear();
            }
            return Vec::new();
        };
        let tail = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, tail);
        whole
            .split(|byte| *byte == b'\n')
            .filter_map(Line::parse)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Line, Lines, Step};

    fn step(level: &str, message: &str) -> Step {
        let json = serde_json::json!({"level": level, "message": message, "source": "Exec[x]", "tags": []});
        Line::parse(json.to_string().as_bytes()).unwrap().step()
    }

    /// Messages recorded from Puppet 7.23.
    #[test]
    fn puppets_messages_are_understood() {
        assert_eq!(
            step("info", "Applying configuration version '1795314054'"),
            Step::Applying
        );
        assert_eq!(
            step("info", "Starting to evaluate the resource (1 of 17)"),
            Step::Started
        );
        assert_eq!(step("info", "Evaluated in 0.00 seconds"), Step::Evaluated);
        assert_eq!(
            step("info", "Scheduling refresh of Exec[a of b]"),
            Step::Scheduled {
                target: "Exec[a of b]".to_owned()
            }
        );
        assert_eq!(
            step("info", "Unscheduling all events on Class[Main]"),
            Step::Unscheduled
        );
        assert_eq!(
            step("info", "Unscheduling refresh on Service[x]"),
            Step::Needless
        );
        assert_eq!(
            step("notice", "Triggered 'refresh' from 2 events"),
            Step::Triggered
        );
        assert_eq!(
            step("notice", "Would have triggered 'refresh' from 1 event"),
            Step::WouldTrigger
        );
        assert_eq!(
            step("notice", "current_value 'absent', should be 'file' (noop)"),
            Step::Noop
        );
        assert_eq!(step("notice", "executed successfully"), Step::Said);
        assert_eq!(
            step(
                "err",
                "Failed to call refresh: '/bin/false' returned 1 instead of one of [0]"
            ),
            Step::RefreshFailed {
                reason: "refresh: '/bin/false' returned 1 instead of one of [0]".to_owned()
            }
        );
        assert_eq!(step("err", "change from 'x' to 'y' failed"), Step::Failed);
        assert_eq!(
            step("warning", "Skipping because of failed dependencies"),
            Step::Other
        );
    }

    #[test]
    fn lines_are_the_same_however_the_file_grows() {
        let text = "{\"level\":\"info\",\"message\":\"a\\nb\",\"source\":\"ü\"}\ngarbage\n{\"level\":\"err\",\"message\":\"\",\"source\":\"x\"}\n{\"lev";
        let whole = Lines::default().add(text.as_bytes());
        assert_eq!(whole.len(), 2);
        let mut slow = Lines::default();
        let pieces: Vec<Line> = text
            .as_bytes()
            .chunks(3)
            .flat_map(|piece| slow.add(piece))
            .collect();
        assert_eq!(pieces, whole);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8)) {
            let mut lines = Lines::default();
            for piece in pieces {
                for line in lines.add(&piece) {
                    let _ = line.step();
                }
            }
        }
    }
}
