//! Policy tests: a file of cases, each with a request and the expected verdict. Pure, except for reading the test file and the inventories that it
//! names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_files::files;
use muster_policy::{
    PolicyExplanation, PolicyPrincipal, PolicyQuery, PolicySet, RuleVerdict, parse_instant,
};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::policy::data::AssumedDataValues;
use crate::policy::error::PolicyError;
use crate::policy::node::SavedNode;

/// Maximum size of a test file, in bytes.
const MAX_TEST_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// A parsed test file.
#[derive(Debug)]
pub struct PolicyTestSuite {
    /// Directory of the policies.
    pub policies: PathBuf,
    /// A node's verdict for agents without a policy.
    pub default: RuleVerdict,
    cases: Vec<ResolvedTestCase>,
}

/// Result of a case.
#[derive(Debug)]
pub struct PolicyTestOutcome {
    /// Name of the case.
    pub name: String,
    /// The expected verdict.
    pub expected: RuleVerdict,
    /// The expected rule, if the case names one.
    pub expected_rule: Option<String>,
    /// The actual verdict and its explanation.
    pub actual: PolicyExplanation,
}

impl PolicyTestOutcome {
    /// Whether the verdict is as expected.
    pub fn has_passed(&self) -> bool {
        let rule = self.expected_rule.as_ref();
        let decision = &self.actual.decision;
        decision.allowed == (self.expected == RuleVerdict::Allow)
            && rule.is_none_or(|rule| *rule == decision.rule)
    }
}

/// The layout of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTestFile {
    #[serde(default)]
    policies: PathBuf,
    #[serde(default = "default_verdict")]
    default: RuleVerdict,
    #[serde(default)]
    nodes: BTreeMap<String, PolicyTestNode>,
    cases: Vec<PolicyTestCase>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTestNode {
    inventory: Option<PathBuf>,
    #[serde(default)]
    facts: Map<String, Value>,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default)]
    data: AssumedDataValues,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTestCase {
    name: Option<String>,
    caller: PolicyPrincipal,
    agent: SubjectName,
    action: SubjectName,
    node: Option<String>,
    #[serde(default)]
    facts: Map<String, Value>,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default)]
    data: AssumedDataValues,
    #[serde(default)]
    inputs: Map<String, Value>,
    at: Option<String>,
    expect: RuleVerdict,
    rule: Option<String>,
}

/// A case with its node and time.
#[derive(Debug)]
struct ResolvedTestCase {
    case: PolicyTestCase,
    node: SavedNode,
    data: AssumedDataValues,
    at: Option<Millis>,
}

fn default_verdict() -> RuleVerdict {
    RuleVerdict::Deny
}

impl PolicyTestSuite {
    /// Reads a test file, and the inventories that it names. Relative paths are resolved against the test file.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = files::read_text(path, MAX_TEST_FILE_BYTES)?;
        let invalid = |message: String| PolicyError::Cases(path.to_owned(), message);
        let file: PolicyTestFile =
            toml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        let resolve = |name: &Path| path.parent().unwrap_or(Path::new("")).join(name);
        let mut nodes = BTreeMap::new();
        for (name, node) in file.nodes {
            let known = match &node.inventory {
                Some(inventory) => SavedNode::read(&resolve(inventory))?,
                None => SavedNode::default(),
            };
            let known = known.with_facts_and_classes(node.facts, &node.classes)?;
            nodes.insert(name, (known, node.data));
        }
        let mut cases = Vec::new();
        for mut case in file.cases {
            let (node, data) = match &case.node {
                None => (SavedNode::default(), AssumedDataValues::default()),
                Some(name) => nodes
                    .get(name)
                    .cloned()
                    .ok_or_else(|| invalid(format!("the table [nodes.{name}] is missing")))?,
            };
            let facts = std::mem::take(&mut case.facts);
            let node = node.with_facts_and_classes(facts, &case.classes)?;
            let at = case.at.as_deref().map(parse_instant).transpose();
            let at = at.map_err(|error| invalid(error.to_string()))?;
            let data = data.merged_with(&case.data);
            cases.push(ResolvedTestCase { case, node, data, at });
        }
        let policies = resolve(&file.policies);
        Ok(Self {
            policies: if policies.as_os_str().is_empty() { PathBuf::from(".") } else { policies },
            default: file.default,
            cases,
        })
    }

    /// Evaluates the policies. `now` is the time for cases without one.
    pub fn run_cases(&self, policies: &PolicySet, now: Millis) -> Vec<PolicyTestOutcome> {
        let outcome = |resolved: &ResolvedTestCase| {
            let (case, node) = (&resolved.case, &resolved.node.view());
            let query = PolicyQuery {
                caller: &case.caller,
                agent: &case.agent,
                action: &case.action,
                node,
                inputs: Some(&case.inputs),
                now: resolved.at.unwrap_or(now),
            };
            PolicyTestOutcome {
                name: case.case_title(),
                expected: case.expect,
                expected_rule: case.rule.clone(),
                actual: policies.explain(&query, &resolved.data.to_lookup_values()),
            }
        };
        self.cases.iter().map(outcome).collect()
    }
}

impl PolicyTestCase {
    fn case_title(&self) -> String {
        let node = self.node.as_ref().map(|node| format!(" on {node}"));
        self.name.clone().unwrap_or_else(|| {
            let (caller, agent, action) = (&self.caller, &self.agent, &self.action);
            format!("{caller}: {agent} {action}{}", node.unwrap_or_default())
        })
    }
}
