//! What a run says: to whoever listens, and to the report that is folded meanwhile.

use super::Run;
use crate::report::{Event, Level, Log, RunEvent};
use crate::world::Member;

impl Run<'_> {
    /// Tells it to everybody.
    pub(super) fn emit(&mut self, event: &RunEvent) {
        self.builder.take(event);
        (self.tell)(event);
    }

    /// A line of the run itself.
    pub(super) fn say(&mut self, level: Level, message: &str) {
        let log = Log {
            level,
            message: message.to_owned(),
            source: "Puppet".to_owned(),
            tags: vec![level.word().to_owned()],
            time: self.stamp(),
            file: None,
            line: None,
        };
        self.log(log);
    }

    /// A line of a resource, or of something about it: `/Stage[main]/Main/File[/x]/ensure`.
    pub(super) fn say_of(
        &mut self,
        member: crate::world::MemberId,
        about: Option<&str>,
        level: Level,
        message: &str,
    ) {
        let Some(log) = self
            .world
            .get(member)
            .map(|member| self.line(member, about, level, message))
        else {
            return;
        };
        self.log(log);
    }

    fn line(&self, member: &Member, about: Option<&str>, level: Level, message: &str) -> Log {
        let mut source = member.source();
        if let Some(about) = about {
            source.push('/');
            source.push_str(about);
        }
        let mut tags = vec![level.word().to_owned()];
        tags.extend(member.tags.iter().cloned());
        Log {
            level,
            message: message.to_owned(),
            source,
            tags,
            time: self.stamp(),
            file: member.file.clone(),
            line: member.line,
        }
    }

    fn log(&mut self, log: Log) {
        if self.options.verbose || log.level >= Level::Notice {
            self.emit(&RunEvent::Log(log));
        }
    }

    /// The event of a failure that is no property's.
    pub(super) fn error_event(&self, message: &str) -> Event {
        self.whole_event("resource_error", "failure", message)
    }

    /// The event of something that happened to a resource as a whole.
    pub(super) fn whole_event(&self, name: &str, status: &'static str, message: &str) -> Event {
        Event {
            audited: false,
            property: None,
            previous_value: serde_json::Value::Null,
            desired_value: serde_json::Value::Null,
            historical_value: serde_json::Value::Null,
            message: message.to_owned(),
            name: name.to_owned(),
            status,
            time: self.stamp(),
            redacted: Some(false),
            corrective_change: false,
        }
    }
}
