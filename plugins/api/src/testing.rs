//! Test kit: verifies that the values of a data source match its DDL, and runs actions without a daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_ddl::{AgentDdl, OutputSchema, ValueType};
use muster_filter::NodeFilter;
use muster_filter::state::{MapField, NodeFacts, NodeView};
use muster_system::System;
use muster_wire::identity::{Identity, SubjectName};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::context::CallContext;
use crate::data_source::ValidatedDataSource;
use crate::finding::HealthFinding;
use crate::node::{
    AgentProblem, CancelScope, CounterSnapshot, NodeHandle, RequestOwner, RunningRequest,
};

/// All differences between the type of a data source's values and its DDL; empty when they match.
pub fn data_differences<O>(source: &ValidatedDataSource) -> Vec<String>
where
    O: DeserializeOwned + JsonSchema + 'static,
{
    let ddl = source.ddl();
    let mut found = Vec::new();
    if !source.has_output::<O>() {
        found.push(format!("the data source {} has values of another type", ddl.name()));
    }
    compare_fields(&field_types::<O>(), ddl.outputs(), &mut found);
    if ddl.examples().is_empty() {
        found.push(format!("{} has no example", ddl.name()));
    }
    for example in ddl.examples() {
        let output = ddl.check_answer(example.output.clone()).unwrap_or_default();
        if let Err(error) = serde_json::from_value::<O>(Value::Object(output)) {
            found.push(format!("example output does not match the type: {error}"));
        }
    }
    found
}

/// The JSON types of each field of a type.
fn field_types<T: JsonSchema>() -> BTreeMap<String, BTreeSet<String>> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields.map(|(name, field)| (name.clone(), json_types(field))).collect()
}

fn compare_fields(
    fields: &BTreeMap<String, BTreeSet<String>>,
    declared: &[OutputSchema],
    found: &mut Vec<String>,
) {
    for OutputSchema { name, value_type, .. } in declared {
        let Some(types) = fields.get(name) else {
            found.push(format!("output {name} is in the DDL, but not in the type"));
            continue;
        };
        let accepted = accepted_types(*value_type);
        if !accepted.is_empty() && !types.iter().any(|found| accepted.contains(&found.as_str())) {
            found.push(format!(
                "output {name} is {value_type} in the DDL, but {types:?} in the type"
            ));
        }
    }
    for field in fields.keys() {
        if !declared.iter().any(|output| output.name == *field) {
            found.push(format!("output {field} is in the type, but not in the DDL"));
        }
    }
}

/// The JSON types that a DDL type accepts; empty for "any".
fn accepted_types(kind: ValueType) -> &'static [&'static str] {
    match kind {
        ValueType::String | ValueType::List => &["string"],
        ValueType::Integer => &["integer"],
        ValueType::Float | ValueType::Number => &["number", "integer"],
        ValueType::Boolean => &["boolean"],
        ValueType::Array => &["array"],
        ValueType::Hash => &["object"],
        ValueType::Any => &[],
    }
}

fn json_types(field: &Value) -> BTreeSet<String> {
    match field.get("type") {
        Some(Value::String(one)) => BTreeSet::from([one.clone()]),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => field
            .get("anyOf")
            .and_then(Value::as_array)
            .map(|variants| variants.iter().flat_map(json_types).collect())
            .unwrap_or_default(),
    }
}

/// A node with fixed values.
#[derive(Clone)]
pub struct TestNode {
    /// Its name.
    pub identity: Identity,
    /// Its collectives.
    pub collectives: Vec<SubjectName>,
    /// Its facts.
    pub facts: Arc<NodeFacts>,
    /// Its classes.
    pub classes: Arc<[String]>,
    /// Its agents' DDLs.
    pub ddls: Vec<Arc<AgentDdl>>,
    /// Its agents that cannot be used.
    pub agent_problems: Vec<AgentProblem>,
    /// Its data sources.
    pub data_sources: Vec<ValidatedDataSource>,
    /// Its configuration, by dotted name.
    pub config: Map<String, Value>,
    /// Its counters.
    pub stats: CounterSnapshot,
    /// Its running requests.
    pub running: Vec<RunningRequest>,
    /// Its problems.
    pub findings: Vec<HealthFinding>,
}

impl std::fmt::Debug for TestNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestNode").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl TestNode {
    /// A node with this name in the collective `muster` and no other values; `None` if the name is invalid.
    pub fn named(identity: &str) -> Option<Self> {
        Some(Self {
            identity: Identity::parse(identity).ok()?,
            collectives: vec![SubjectName::parse("muster").ok()?],
            facts: Arc::default(),
            classes: Arc::from([]),
            ddls: Vec::new(),
            agent_problems: Vec::new(),
            data_sources: Vec::new(),
            config: Map::new(),
            stats: CounterSnapshot::default(),
            running: Vec::new(),
            findings: Vec::new(),
        })
    }

    /// The context of a call of `action` of `agent` on this node; `None` if a name is invalid.
    pub fn context(
        &self,
        agent: &str,
        action: &str,
        system: Arc<dyn System>,
    ) -> Option<CallContext> {
        let cancel = CancellationToken::new();
        Some(CallContext {
            request: Uuid::now_v7(),
            caller: Identity::parse("tester").ok()?,
            sender: None,
            agent: SubjectName::parse(agent).ok()?,
            action: SubjectName::parse(action).ok()?,
            trace: None,
            deadline: Instant::now() + Duration::from_mins(1),
            cancel: cancel.clone(),
            withdrawn: cancel.child_token(),
            system,
            node: Arc::new(self.clone()),
            progress: crate::progress::ProgressSink::default(),
            reply_wanted: true,
        })
    }
}

impl NodeHandle for TestNode {
    fn identity(&self) -> &Identity {
        &self.identity
    }
    fn collectives(&self) -> &[SubjectName] {
        &self.collectives
    }
    fn facts(&self) -> Arc<NodeFacts> {
        Arc::clone(&self.facts)
    }
    fn classes(&self) -> Arc<[String]> {
        Arc::clone(&self.classes)
    }
    fn is_matched_by(&self, filter: &NodeFilter) -> bool {
        let agents: Vec<String> = self.ddls.iter().map(|ddl| ddl.name().to_owned()).collect();
        let collectives: Vec<String> = self.collectives().iter().map(ToString::to_string).collect();
        filter.matches(
            &NodeView::new(self.identity().as_str(), &self.facts())
                .with_classes(Some(&self.classes()))
                .with_agents(&agents)
                .with_collectives(&collectives)
                .with_map(MapField::State, self.state().as_deref()),
        )
    }

    fn agent_ddls(&self) -> Vec<Arc<AgentDdl>> {
        self.ddls.clone()
    }
    fn agent_problems(&self) -> Vec<AgentProblem> {
        self.agent_problems.clone()
    }
    fn data_sources(&self) -> &[ValidatedDataSource] {
        &self.data_sources
    }
    fn config_item(&self, name: &str) -> Option<Value> {
        self.config.get(name).cloned()
    }
    fn config_file(&self) -> &Path {
        static FILE: std::sync::LazyLock<PathBuf> =
            std::sync::LazyLock::new(|| PathBuf::from("/etc/muster/rpcd.toml"));
        &FILE
    }
    fn running_requests(&self) -> Vec<RunningRequest> {
        self.running.clone()
    }
    fn cancel_request(
        &self,
        id: Uuid,
        of: Option<&RequestOwner>,
        _: CancelScope,
    ) -> Option<(RunningRequest, bool)> {
        let found = self.running.iter().find(|request| request.id == id)?;
        let allowed = of.is_none_or(|owner| *owner == found.owner);
        Some((found.clone(), allowed))
    }
    fn counter_snapshot(&self) -> CounterSnapshot {
        self.stats.clone()
    }
    fn collect_findings(&self) -> Vec<HealthFinding> {
        self.findings.clone()
    }
}
