//! Log output of a run: emits events to the listener and to the report builder.

use super::CatalogRun;
use crate::report::{ResourceEvent, RunEvent, RunLogEntry, RunLogLevel};
use crate::resolved_catalog::MemberId;

impl CatalogRun<'_> {
    /// Emits an event to the listener and the report builder.
    pub(super) fn emit_event(&mut self, event: &RunEvent) {
        self.builder.add_event(event);
        (self.on_event)(event);
    }

    /// Logs a message of the run itself.
    pub(super) fn log_message(&mut self, level: RunLogLevel, message: &str) {
        self.emit_log_entry(RunLogEntry {
            level,
            message: message.to_owned(),
            source: "Puppet".to_owned(),
            tags: vec![level.as_str().to_owned()],
            time: self.current_timestamp(),
            file: None,
            line: None,
        });
    }

    /// Logs a message of a resource or one of its properties: `/Stage[main]/Main/File[/x]/ensure`.
    pub(super) fn log_member_message(
        &mut self,
        member: MemberId,
        property: Option<&str>,
        level: RunLogLevel,
        message: &str,
    ) {
        let Some(member) = self.resolved.get_member(member) else { return };
        let property = property.map(|property| format!("/{property}")).unwrap_or_default();
        let mut tags = vec![level.as_str().to_owned()];
        tags.extend(member.tags.iter().cloned());
        self.emit_log_entry(RunLogEntry {
            level,
            message: message.to_owned(),
            source: member.log_source() + &property,
            tags,
            time: self.current_timestamp(),
            file: member.file.clone(),
            line: member.line,
        });
    }

    fn emit_log_entry(&mut self, log: RunLogEntry) {
        if self.options.verbose || log.level >= RunLogLevel::Notice {
            self.emit_event(&RunEvent::Log(log));
        }
    }

    /// The event of a failure that is not specific to a property.
    pub(super) fn error_event(&self, message: &str) -> ResourceEvent {
        self.whole_event("resource_error", "failure", message)
    }

    pub(super) fn whole_event(
        &self,
        name: &str,
        status: &'static str,
        message: &str,
    ) -> ResourceEvent {
        ResourceEvent {
            audited: false,
            property: None,
            previous_value: serde_json::Value::Null,
            desired_value: serde_json::Value::Null,
            historical_value: serde_json::Value::Null,
            message: message.to_owned(),
            name: name.to_owned(),
            status,
            time: self.current_timestamp(),
            redacted: Some(false),
            corrective_change: false,
        }
    }
}
