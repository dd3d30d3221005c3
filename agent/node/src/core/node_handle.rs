//! What agents and data sources see of their node: [`NodeHandle`] for the daemon's state.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use muster_api::{
    AgentProblem, CallContext, CallerVerdict, CancelScope, CounterSnapshot, HealthFinding,
    HistoryRecorder, NodeHandle, RequestOwner, RunningRequest, ValidatedDataSource, WorkEnd,
};
use muster_ddl::AgentDdl;
use muster_filter::NodeFilter;
use muster_filter::state::NodeFacts;
use muster_policy::CallerDecision;
use muster_wire::identity::{Identity, SubjectName};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::core::audit::AuditRecord;
use crate::core::{DaemonCore, health};

impl NodeHandle for DaemonCore {
    fn identity(&self) -> &Identity {
        self.trust.identity()
    }

    fn collectives(&self) -> &[SubjectName] {
        &self.node.collectives
    }

    fn facts(&self) -> Arc<NodeFacts> {
        self.node.facts.current()
    }

    fn state(&self) -> Option<Arc<NodeFacts>> {
        self.node.state.current()
    }

    fn classes(&self) -> Arc<[String]> {
        self.node.classes.current()
    }

    fn is_matched_by(&self, filter: &NodeFilter) -> bool {
        self.with_node_view(|node| filter.matches(node))
    }

    fn decide_callers(
        &self,
        agent: &SubjectName,
        action: &SubjectName,
    ) -> Option<Vec<CallerVerdict>> {
        let policy = self.offer.policy.get();
        let decided = |CallerDecision { caller, decision }: CallerDecision| CallerVerdict {
            caller,
            allowed: decision.allowed,
            rule: decision.rule,
            approved_by: decision.approved_by,
        };
        self.offer.authority.tell_rules.then(|| {
            let now = self.now();
            let decisions =
                self.with_node_view(|node| policy.decide_callers(agent, action, node, now));
            decisions.into_iter().map(decided).collect()
        })
    }

    fn agent_ddls(&self) -> Vec<Arc<AgentDdl>> {
        self.offer.registry.get().agent_ddls()
    }

    fn agent_problems(&self) -> Vec<AgentProblem> {
        self.agent_problems.get().to_vec()
    }

    fn agent_ddl(&self, agent: &str) -> Option<Arc<AgentDdl>> {
        let registry = self.offer.registry.get();
        registry.agent(agent).map(|agent| Arc::clone(agent.ddl()))
    }

    fn data_sources(&self) -> &[ValidatedDataSource] {
        &self.offer.data_sources
    }

    fn config_item(&self, name: &str) -> Option<Value> {
        self.config.as_ref()?.redacted_item(name)
    }

    fn config_file(&self) -> &Path {
        &self.config_file
    }

    fn running_requests(&self) -> Vec<RunningRequest> {
        self.running.list_requests()
    }

    fn cancel_request(
        &self,
        id: Uuid,
        owner: Option<&RequestOwner>,
        scope: CancelScope,
    ) -> Option<(RunningRequest, bool)> {
        self.running.cancel_request(id, owner, scope)
    }

    fn counter_snapshot(&self) -> CounterSnapshot {
        self.snapshot_counters()
    }

    fn describe_sandboxes(&self) -> BTreeMap<String, String> {
        let config = self.config.as_ref();
        config.map(|config| health::describe_sandboxes(self, config)).unwrap_or_default()
    }

    fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    fn hand_over(&self, call: &CallContext) {
        self.journals.begun.hand_over(call.work_id());
    }

    fn record_work_end(&self, call: &CallContext, end: &WorkEnd) {
        let Some(record) = AuditRecord::of_work_end(call, end, self.now()) else { return };
        if let Err(error) = self.journals.audit.record_decision(&record) {
            tracing::error!(%error, request = %record.request, "cannot write an audit record");
        }
    }

    fn history(&self) -> HistoryRecorder {
        HistoryRecorder::new(self.journals.history.clone())
    }

    fn collect_findings(&self) -> Vec<HealthFinding> {
        health::collect_findings(self, self.config.as_ref())
    }
}
