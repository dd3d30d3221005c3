//! One resource's turn: skipped, or looked at, changed, and refreshed.

use std::time::Instant;

use serde_json::Value as Json;

use super::Run;
use super::notify::Queued;
use crate::error::EngineError;
use crate::graph::NodeId;
use crate::plan::{Change, ChangeOutcome, Plan, REDACTED};
use crate::providers::digest::Digest;
use crate::redact::Redactor;
use crate::report::{Event, Level, RunEvent, Status};
use crate::resource::{Resource, Value};
use crate::world::MemberId;

/// How much of a digest is kept with a debt, in hexadecimal digits.
const DIGEST_DIGITS: usize = 32;

impl Run<'_> {
    /// The turn of a resource.
    pub(super) fn resource(&mut self, node: NodeId, member: MemberId) {
        let resource = self
            .world
            .get(member)
            .and_then(|member| member.resource.clone());
        let (Some(resource), Some(mut status)) = (resource, self.status(member)) else {
            return;
        };
        self.propagate_failures(node);
        if let Some(skip) = self.skip(node, member) {
            status.skipped = true;
            self.drop_queue(node, member, &skip);
        } else {
            let began = Instant::now();
            self.evaluate(node, member, &resource, &mut status);
            status.evaluation_time = Some(began.elapsed().as_secs_f64());
            self.refresh(node, member, &mut status);
        }
        if let Some(note) = self.notes.get_mut(node) {
            note.failed = status.failed;
            note.failed_to_restart = status.failed_to_restart;
        }
        self.emit(&RunEvent::Resource(Box::new(status)));
    }

    pub(super) fn is_noop(&self, resource: &Resource) -> bool {
        // `noop => false` of a resource overrides the run's noop, as in Puppet, but not the bounds of a read-only engine.
        let own = resource.get("noop").and_then(Value::as_bool);
        self.engine.is_read_only() || own.unwrap_or(self.options.noop)
    }

    fn evaluate(
        &mut self,
        node: NodeId,
        member: MemberId,
        resource: &Resource,
        status: &mut Status,
    ) {
        let reference = resource.reference();
        let now = self.now();
        status.provider_used = self.engine.provider(&self.cx, resource);
        let mut plan = match self.engine.plan_with(&self.cx, resource) {
            Ok(plan) => plan,
            Err(error) if error.is_not_evaluated() => {
                return self.leave_unevaluated(node, member, &error, status);
            }
            Err(error) => return self.could_not_evaluate(member, resource, &error, status),
        };
        self.tell_output(member, resource);
        self.memory.of_mut(&reference).checked = Some(now);
        if let Some(member) = self.world.get(member) {
            Redactor::mark(&mut plan, &member.sensitive);
        }
        let digest = plan_digest(&plan);
        let audits = self.audit(member, &plan);
        if self.is_noop(resource) {
            for change in &plan.changes {
                self.event(member, change, &ChangeOutcome::Planned, status);
            }
        } else {
            self.carry_out(node, member, &plan, &digest, status);
        }
        for event in audits {
            if !plan
                .changes
                .iter()
                .any(|change| Some(&change.property) == event.property.as_ref())
            {
                let about = event.property.clone();
                self.say_of(member, about.as_deref(), Level::Notice, &event.message);
                status.add(event);
            }
        }
        let planned = (!plan.is_empty()).then_some(digest.as_str());
        self.decide_uncertain(&reference, planned);
        self.remember(&plan, status);
        if !status.failed {
            let queued = |event: &Event| Queued {
                noop: event.status == "noop",
            };
            let events: Vec<Queued> = status.events.iter().map(queued).collect();
            self.tell_all(node, &events);
            self.tell_itself(node, resource, &events);
            self.spare(node, member, &plan, status);
        }
    }

    /// One change after the other; the first is preceded by an intent where others are to be refreshed.
    fn carry_out(
        &mut self,
        node: NodeId,
        member: MemberId,
        plan: &Plan,
        digest: &str,
        status: &mut Status,
    ) {
        if plan.is_empty() {
            return;
        }
        let reference = plan.resource.reference();
        // Decided before the intent is written: the debts of a dead run and ours must not be taken for each other.
        self.decide_uncertain(&reference, Some(digest));
        let intent = match self.intend(node, &reference, digest) {
            Ok(intent) => intent,
            Err(error) => {
                let message = format!(
                    "the refresh ledger cannot be written, so that nothing was changed: {error}"
                );
                self.say_of(member, None, Level::Err, &message);
                status.add(self.error_event(&message));
                return;
            }
        };
        for change in &plan.changes {
            let made = self.engine.make(&self.cx, plan, change);
            self.tell_output(member, &plan.resource);
            match made {
                Ok(()) => self.event(member, change, &ChangeOutcome::Made, status),
                Err(error) => {
                    let reason = error.reason();
                    self.event(member, change, &ChangeOutcome::Failed(&reason), status);
                }
            }
        }
        if let Some(intent) = intent {
            let changed = status.changed;
            self.settle(|ledger| {
                if changed {
                    ledger.made(&intent)
                } else {
                    ledger.not_made(&intent)
                }
            });
        }
    }

    fn could_not_evaluate(
        &mut self,
        member: MemberId,
        resource: &Resource,
        error: &EngineError,
        status: &mut Status,
    ) {
        self.tell_output(member, resource);
        let reason = self.hide(member, &error.reason());
        self.say_of(
            member,
            None,
            Level::Err,
            &format!("Could not evaluate: {reason}"),
        );
        status.add(self.error_event(&reason));
    }

    /// Tells a change, as a line and as an event.
    fn event(
        &mut self,
        member: MemberId,
        change: &Change,
        outcome: &ChangeOutcome<'_>,
        status: &mut Status,
    ) {
        let Some(known) = self.world.get(member) else {
            return;
        };
        let Some(resource) = &known.resource else {
            return;
        };
        let told = change.event(&resource.reference(), outcome);
        let (word, level) = match outcome {
            ChangeOutcome::Made => ("success", Level::Notice),
            ChangeOutcome::Planned => ("noop", Level::Notice),
            ChangeOutcome::Failed(_) => ("failure", Level::Err),
        };
        let own = resource.text("loglevel").and_then(Level::of);
        let level = if word == "failure" {
            level
        } else {
            own.unwrap_or(level)
        };
        let corrective = self.is_corrective(&resource.reference(), resource, change);
        let redactor = Redactor::new(resource, &known.sensitive);
        let mut message = redactor.text(&told.message);
        if corrective {
            message.push_str(" (corrective)");
        }
        let event = Event {
            audited: false,
            property: Some(change.property.clone()),
            previous_value: match &told.previous_value {
                Some(value) => json(value),
                None if change.sensitive => Json::from(REDACTED),
                None => Json::from("absent"),
            },
            desired_value: json(&told.desired_value),
            historical_value: Json::Null,
            message: message.clone(),
            name: event_name(&resource.type_name, change),
            status: word,
            time: self.stamp(),
            redacted: change.sensitive.then_some(true),
            corrective_change: corrective,
        };
        self.say_of(member, Some(&change.property), level, &message);
        status.add(event);
    }

    /// Whether an earlier run had left another value than the one that was found now.
    fn is_corrective(&self, reference: &str, resource: &Resource, change: &Change) -> bool {
        if change.sensitive || matches!(resource.type_name.as_str(), "exec" | "notify") {
            return false;
        }
        let brought = self
            .memory
            .of(reference)
            .and_then(|seen| seen.brought.get(&change.property));
        let absent = Value::from("absent");
        brought.is_some_and(|brought| change.from.as_ref().unwrap_or(&absent) != brought)
    }

    /// What audits found to be other than before.
    fn audit(&mut self, member: MemberId, plan: &Plan) -> Vec<Event> {
        let resource = &plan.resource;
        let mut names: Vec<String> = resource
            .list("audit")
            .into_iter()
            .map(str::to_owned)
            .collect();
        if names.iter().any(|name| name == "all") {
            names = plan.state.values.keys().cloned().collect();
        }
        let mut events = Vec::new();
        for name in names {
            let absent = Value::from("absent");
            let found = plan.state.get(&name).cloned().unwrap_or(absent);
            let sensitive = self
                .world
                .get(member)
                .is_some_and(|known| known.sensitive.contains(&name));
            let seen = self.memory.of_mut(&resource.reference());
            let before = seen.audited.insert(name.clone(), found.clone());
            let show = |value: &Value| {
                if sensitive {
                    Json::from(REDACTED)
                } else {
                    json(value)
                }
            };
            match before {
                None => {
                    let message = format!("audit change: newly-recorded value {found}");
                    let message = if sensitive {
                        "audit change: newly-recorded value [redacted]".to_owned()
                    } else {
                        message
                    };
                    self.say_of(member, Some(&name), Level::Notice, &message);
                }
                Some(before) if before != found => {
                    let text = |value: &Value| {
                        if sensitive {
                            REDACTED.to_owned()
                        } else {
                            crate::plan::quoted(Some(value))
                        }
                    };
                    let message = format!(
                        "audit change: previously recorded value {} has been changed to {}",
                        text(&before),
                        text(&found)
                    );
                    let mut event = self.whole_event(&format!("{name}_changed"), "audit", &message);
                    event.audited = true;
                    event.property = Some(name);
                    event.previous_value = show(&found);
                    event.historical_value = show(&before);
                    event.desired_value = resource
                        .get(event.property.as_deref().unwrap_or_default())
                        .map_or(Json::Null, show);
                    events.push(event);
                }
                Some(_) => {}
            }
        }
        events
    }

    /// Which values hold now, as far as they are managed: what a later run finds otherwise was changed by somebody else.
    fn remember(&mut self, plan: &Plan, status: &Status) {
        let now = self.now();
        let engine = self.engine;
        let seen = self.memory.of_mut(&plan.resource.reference());
        if status.changed {
            seen.synced = Some(now);
        }
        for (name, desired) in engine.managed(&plan.resource) {
            let event = status
                .events
                .iter()
                .find(|event| event.property.as_deref() == Some(name));
            match event.map(|event| event.status) {
                None | Some("success") => {
                    seen.brought.insert(name.to_owned(), desired.clone());
                }
                Some(_) => {
                    let found = plan.state.get(name).cloned();
                    seen.brought
                        .entry(name.to_owned())
                        .or_insert_with(|| found.unwrap_or_else(|| Value::from("absent")));
                }
            }
        }
    }

    /// A service that was only just started need not be restarted.
    fn spare(&mut self, node: NodeId, member: MemberId, plan: &Plan, status: &Status) {
        let made = |change: &&Change| {
            status.events.iter().any(|event| {
                event.property.as_ref() == Some(&change.property) && event.status == "success"
            })
        };
        let spares = plan
            .changes
            .iter()
            .filter(made)
            .any(|change| self.engine.spares_refresh(&plan.resource, change));
        if !spares {
            return;
        }
        let reference = plan.resource.reference();
        if !self.take_queue(node).is_empty() {
            let message = format!("Unscheduling refresh on {reference}");
            self.say_of(member, None, Level::Info, &message);
        }
        self.settle(|ledger| ledger.paid(&reference));
    }

    /// What the type had to say: a command's output, a message.
    pub(super) fn tell_output(&mut self, member: MemberId, resource: &Resource) {
        let lines = self.cx.log.take();
        let level = resource
            .text("loglevel")
            .and_then(Level::of)
            .unwrap_or(Level::Notice);
        for line in lines {
            let line = self.hide(member, &line);
            match resource.type_name.as_str() {
                "notify" if !resource.flag("withpath") => self.say(level, &line),
                "exec" => self.say_of(member, Some("returns"), level, &line),
                _ => self.say_of(member, None, level, &line),
            }
        }
    }

    /// The text without the resource's secrets.
    pub(super) fn hide(&self, member: MemberId, text: &str) -> String {
        let Some(known) = self.world.get(member) else {
            return text.to_owned();
        };
        known.resource.as_ref().map_or_else(
            || text.to_owned(),
            |resource| Redactor::new(resource, &known.sensitive).text(text),
        )
    }
}

fn json(value: &Value) -> Json {
    // Texts, numbers and lists; serialising them cannot fail.
    serde_json::to_value(value).unwrap_or_default()
}

/// What Puppet calls a change of that property.
fn event_name(type_name: &str, change: &Change) -> String {
    let to = change.to.as_text().unwrap_or_default();
    match (type_name, change.property.as_str(), to) {
        ("exec", "returns", _) => "executed_command".to_owned(),
        ("file", "ensure", "file" | "present") => "file_created".to_owned(),
        ("file", "ensure", "directory") => "directory_created".to_owned(),
        ("file", "ensure", "link") => "link_created".to_owned(),
        ("file", "ensure", "absent") => "file_removed".to_owned(),
        ("package", "ensure", "present" | "installed") => "package_installed".to_owned(),
        ("package", "ensure", "absent") => "package_removed".to_owned(),
        ("package", "ensure", "purged") => "package_purged".to_owned(),
        ("service", "ensure", "running") => "service_started".to_owned(),
        ("service", "ensure", "stopped") => "service_stopped".to_owned(),
        ("service", "enable", "true") => "service_enabled".to_owned(),
        ("service", "enable", "false" | "mask") => "service_disabled".to_owned(),
        ("mount", "ensure", "absent") => "mount_deleted".to_owned(),
        (_, "ensure", "present") => format!("{type_name}_created"),
        (_, "ensure", "absent") => format!("{type_name}_removed"),
        (_, "ensure", _) => format!("{type_name}_changed"),
        (_, property, _) => format!("{property}_changed"),
    }
}

/// What is desired of a resource, as a digest. No secret can be read off it by who cannot guess the whole.
pub(super) fn definition(resource: &Resource) -> String {
    digest(&serde_json::to_vec(&resource.values).unwrap_or_default())
}

/// What is about to be changed, as a digest.
fn plan_digest(plan: &Plan) -> String {
    let changes: Vec<_> = plan
        .changes
        .iter()
        .map(|change| (&change.property, &change.from, &change.to))
        .collect();
    digest(&serde_json::to_vec(&changes).unwrap_or_default())
}

fn digest(bytes: &[u8]) -> String {
    let mut text = Digest::Sha256.of(bytes);
    text.truncate(DIGEST_DIGITS);
    text
}
