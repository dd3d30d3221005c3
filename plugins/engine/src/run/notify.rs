//! Who is told of a change, and refreshed; and what is owed to whom when that cannot be.

use super::Run;
use super::select::Skip;
use crate::error::EngineError;
use crate::graph::{Anchor, Node, NodeId};
use crate::ledger::{Certainty, Debt, Intent};
use crate::report::{Level, Status};
use crate::resource::Resource;
use crate::world::MemberId;

/// How long a debt is kept whose target has left the catalog, in seconds: 30 days.
const KEPT: i64 = 30 * 24 * 3600;

/// One thing that a node is told by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Queued {
    /// Whether it only would have happened.
    pub(super) noop: bool,
}

impl Run<'_> {
    /// An anchor has nothing to do but to pass on what it is told.
    pub(super) fn anchor(&mut self, node: NodeId, anchor: &Anchor) {
        self.propagate_failures(node);
        let skipped = self.skip_by_tags(&anchor.tags).is_some() || self.depends_on_failure(node);
        let queue = self.take_queue(node);
        if queue.is_empty() {
            return;
        }
        if skipped {
            let message = format!("Unscheduling all events on {}", anchor.name);
            self.say(Level::Info, &message);
            return;
        }
        let noop = self.options.noop || queue.iter().all(|queued| queued.noop);
        if noop {
            let message = would_trigger(queue.len());
            self.say_as(&anchor.name, Level::Notice, &message);
        }
        self.tell_all(node, &[Queued { noop }]);
    }

    /// Adds to the queue of everybody whom a change of this node refreshes.
    pub(super) fn tell_all(&mut self, node: NodeId, events: &[Queued]) {
        if events.is_empty() {
            return;
        }
        let targets: Vec<(NodeId, u32)> = self.built.graph.after(node).collect();
        for (target, times) in targets.into_iter().filter(|(_, times)| *times > 0) {
            let is_told = match self.built.graph.node(target) {
                Some(Node::Resource(member)) => self.refreshes(*member),
                Some(Node::Anchor(_)) => true,
                None => false,
            };
            if let Some(note) = self.notes.get_mut(target).filter(|_| is_told) {
                for _ in 0..times {
                    note.queue.extend_from_slice(events);
                }
            }
        }
    }

    /// A mount that was changed is mounted anew by itself, unless it was to go.
    pub(super) fn tell_itself(&mut self, node: NodeId, resource: &Resource, events: &[Queued]) {
        if !self.engine.refreshes_itself(resource) {
            return;
        }
        if let Some(note) = self.notes.get_mut(node) {
            note.queue.extend_from_slice(events);
        }
    }

    pub(super) fn take_queue(&mut self, node: NodeId) -> Vec<Queued> {
        self.notes
            .get_mut(node)
            .map(|note| std::mem::take(&mut note.queue))
            .unwrap_or_default()
    }

    fn refreshes(&self, member: MemberId) -> bool {
        let resource = self
            .world
            .get(member)
            .and_then(|member| member.resource.as_ref());
        resource.is_some_and(|resource| self.engine.refreshes(resource))
    }

    /// Puts on the disk what a change of this node, which is about to be made, will owe to whom.
    pub(super) fn intend(
        &mut self,
        node: NodeId,
        source: &str,
        plan: &str,
    ) -> Result<Option<Intent>, muster_system::SystemError> {
        let mut refreshed = self.built.graph.refreshed_by(node);
        if let Some(Node::Resource(member)) = self.built.graph.node(node) {
            let itself = self
                .world
                .get(*member)
                .and_then(|known| known.resource.as_ref());
            refreshed.extend(
                itself
                    .filter(|own| self.engine.refreshes_itself(own))
                    .map(|_| *member),
            );
        }
        let targets: Vec<(String, String)> = refreshed
            .into_iter()
            .filter(|member| self.refreshes(*member))
            .filter_map(|member| {
                let resource = self.world.get(member)?.resource.as_ref()?;
                Some((resource.reference(), super::evaluate::definition(resource)))
            })
            .collect();
        if targets.is_empty() {
            return Ok(None);
        }
        let now = self.now();
        let run = self.options.run_id.clone();
        self.ledger
            .intend(&run, source, plan, now, &targets)
            .map(Some)
    }

    /// Brings to their targets what earlier runs owe for certain, as far as the targets are still there.
    pub(super) fn queue_debts(&mut self) {
        let now = self.now();
        let debts: Vec<Debt> = self.ledger.debts().cloned().collect();
        for debt in debts {
            let source_is_there = self.node_of(&debt.source).is_some();
            if debt.certainty == Certainty::Uncertain && source_is_there {
                continue;
            }
            if debt.certainty == Certainty::Uncertain {
                self.settle(|ledger| ledger.confirm(&[debt.id]));
            }
            self.queue_debt(&debt, now);
        }
    }

    fn queue_debt(&mut self, debt: &Debt, now: i64) {
        let Some((node, member)) = self.node_of(&debt.target) else {
            if now - debt.since > KEPT {
                let message = format!(
                    "The refresh of {} that {} owes since run {} is given up: it left the catalog",
                    debt.target, debt.source, debt.run
                );
                self.say(Level::Warning, &message);
                self.settle(|ledger| ledger.forget(&[debt.id]));
            } else {
                self.settle(|ledger| ledger.explain(&debt.target, "it is not in the catalog"));
            }
            return;
        };
        if !self.refreshes(member) {
            self.settle(|ledger| ledger.forget(&[debt.id]));
            return;
        }
        let changed = self
            .world
            .get(member)
            .and_then(|member| member.resource.as_ref())
            .is_some_and(|resource| {
                super::evaluate::definition(resource) != debt.target_definition
            });
        let remark = if changed {
            "; its definition has changed since"
        } else {
            ""
        };
        let message = format!(
            "A refresh is owed by {} since run {}{remark}",
            debt.source, debt.run
        );
        self.say_of(member, None, Level::Info, &message);
        if let Some(note) = self.notes.get_mut(node) {
            note.queue.push(Queued { noop: false });
        }
    }

    /// A resource was evaluated: now it shows whether the change was made during which an earlier run died.
    pub(super) fn decide_uncertain(&mut self, source: &str, plan: Option<&str>) {
        let now = self.now();
        for debt in self.ledger.uncertain_from(source) {
            // The same was still to be changed: so nothing had been.
            if plan == Some(debt.plan.as_str()) {
                self.settle(|ledger| ledger.forget(&[debt.id]));
            } else {
                self.settle(|ledger| ledger.confirm(&[debt.id]));
                self.queue_debt(&debt, now);
            }
        }
    }

    fn node_of(&self, reference: &str) -> Option<(NodeId, MemberId)> {
        let member = self.world.place(&reference.parse().ok()?)?;
        Some((*self.built.nodes.get(&member)?, member))
    }

    /// Does with the resource what it was told to do: the end of its turn.
    pub(super) fn refresh(&mut self, node: NodeId, member: MemberId, status: &mut Status) {
        let queue = self.take_queue(node);
        let Some(resource) = self
            .world
            .get(member)
            .and_then(|member| member.resource.clone())
        else {
            return;
        };
        if queue.is_empty() {
            return;
        }
        let reference = resource.reference();
        if self.is_noop(&resource) || queue.iter().all(|queued| queued.noop) {
            self.say_of(member, None, Level::Notice, &would_trigger(queue.len()));
            self.settle(|ledger| ledger.explain(&reference, "it is in noop"));
            self.tell_all(node, &[Queued { noop: true }]);
            return;
        }
        // What comes after it is owed from now on: the command may be done when a crash comes, and its end not yet written.
        let intent = self
            .intend(node, &reference, "refresh")
            .unwrap_or_else(|error| {
                self.say(
                    Level::Err,
                    &format!("the refresh ledger cannot be written: {error}"),
                );
                None
            });
        self.settle(|ledger| ledger.begin(&reference));
        let done = self.engine.refresh(&self.cx, &resource);
        self.tell_output(member, &resource);
        match done {
            Ok(()) => {
                let plural = if queue.len() == 1 { "" } else { "s" };
                let message = format!("Triggered 'refresh' from {} event{plural}", queue.len());
                self.say_of(member, None, Level::Notice, &message);
                status.add(self.whole_event("refresh", "success", &message));
                status.restarted = true;
                if let Some(intent) = intent {
                    self.settle(|ledger| ledger.made(&intent));
                }
                self.settle(|ledger| ledger.paid(&reference));
                self.tell_all(node, &[Queued { noop: false }]);
            }
            Err(error) => {
                let message = format!("Failed to call refresh: {}", error.reason());
                let message = self.hide(member, &message);
                self.say_of(member, None, Level::Err, &message);
                status.add(self.error_event(&message));
                status.failed_to_restart = true;
                if let Some(intent) = intent {
                    self.settle(|ledger| ledger.not_made(&intent));
                }
                self.settle(|ledger| ledger.explain(&reference, "its refresh failed"));
            }
        }
    }

    /// A read-only engine does not know whether it would change; what it notifies would then be refreshed.
    pub(super) fn leave_unevaluated(
        &mut self,
        node: NodeId,
        member: MemberId,
        error: &EngineError,
        status: &mut Status,
    ) {
        let reason = self.hide(member, &error.reason());
        let message = format!("not evaluated: {reason}");
        self.say_of(member, None, Level::Notice, &message);
        status.add(self.whole_event("not_evaluated", "noop", &message));
        self.tell_all(node, &[Queued { noop: true }]);
    }

    /// A skipped resource is told nothing in this run; what is owed to it stays owed.
    pub(super) fn drop_queue(&mut self, node: NodeId, member: MemberId, skip: &Skip) {
        let Some(reference) = self
            .world
            .get(member)
            .map(|member| member.reference.to_string())
        else {
            return;
        };
        if !self.take_queue(node).is_empty() {
            let message = format!("Unscheduling all events on {reference}");
            self.say_of(member, None, Level::Info, &message);
        }
        self.settle(|ledger| ledger.explain(&reference, skip.reason()));
    }

    /// Every debt that is left has a reason.
    pub(super) fn explain_debts(&mut self) -> Result<(), muster_system::SystemError> {
        let silent = |debt: &&Debt| debt.reason.is_none();
        let targets: Vec<String> = self
            .ledger
            .debts()
            .filter(silent)
            .map(|debt| debt.target.clone())
            .collect();
        for target in targets {
            self.ledger.explain(
                &target,
                "its notification was dropped on the way: a container was skipped, or the source failed",
            )?;
        }
        Ok(())
    }

    /// The ledger could not be written. The run goes on: what it knows is still in memory, and the next start reads what is there.
    pub(super) fn settle(
        &mut self,
        write: impl FnOnce(&mut crate::ledger::Ledger) -> Result<(), muster_system::SystemError>,
    ) {
        if let Err(error) = write(&mut self.ledger) {
            self.say(
                Level::Err,
                &format!("the refresh ledger cannot be written: {error}"),
            );
        }
    }

    fn say_as(&mut self, name: &str, level: Level, message: &str) {
        let text = format!("{name}: {message}");
        self.say(level, &text);
    }
}

fn would_trigger(events: usize) -> String {
    let plural = if events == 1 { "" } else { "s" };
    format!("Would have triggered 'refresh' from {events} event{plural}")
}
