//! Tests of policies: a file of cases, each a question and the answer that is expected. Pure, but for inventories that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_wire::Millis;
use muster_wire::identity::Name;
use muster_wire::policy::{Explanation, PolicyPrincipal, PolicySet, Question, Verdict, instant};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::data::Supposed;
use super::error::PolicyError;
use super::node::SavedNode;
use super::read::text;

/// Largest test file, in bytes.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// A test file that was read.
#[derive(Debug)]
pub struct Cases {
    /// Where the policies are.
    pub policies: PathBuf,
    /// What a node decides about agents without a policy.
    pub default: Verdict,
    ready: Vec<Ready>,
}

/// How a case ended.
#[derive(Debug)]
pub struct Outcome {
    /// What the case is called.
    pub name: String,
    /// The verdict that is expected.
    pub expected: Verdict,
    /// The rule that is expected, if the case says one.
    pub expected_rule: Option<String>,
    /// What the policies decide, and why.
    pub found: Explanation,
}

impl Outcome {
    /// Whether the policies decide as expected.
    pub fn passed(&self) -> bool {
        let rule = self.expected_rule.as_ref();
        let decision = &self.found.decision;
        decision.allowed == (self.expected == Verdict::Allow)
            && rule.is_none_or(|rule| *rule == decision.rule)
    }
}

/// The layout of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    policies: PathBuf,
    #[serde(default = "deny")]
    default: Verdict,
    #[serde(default)]
    nodes: BTreeMap<String, Node>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    inventory: Option<PathBuf>,
    #[serde(default)]
    facts: Map<String, Value>,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default)]
    data: Supposed,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: Option<String>,
    caller: PolicyPrincipal,
    agent: Name,
    action: Name,
    node: Option<String>,
    #[serde(default)]
    facts: Map<String, Value>,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default)]
    data: Supposed,
    at: Option<String>,
    expect: Verdict,
    rule: Option<String>,
}

/// A case with its node and its time.
#[derive(Debug)]
struct Ready {
    case: Case,
    node: SavedNode,
    data: Supposed,
    at: Option<Millis>,
}

fn deny() -> Verdict {
    Verdict::Deny
}

impl Cases {
    /// Reads a test file, and the inventories that it names. Paths in it are relative to it.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = text(path, FILE_BYTES)?;
        let wrong = |message: String| PolicyError::Cases {
            path: path.to_owned(),
            message,
        };
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let beside = |name: &Path| path.parent().unwrap_or(Path::new("")).join(name);
        let mut nodes = BTreeMap::new();
        for (name, node) in file.nodes {
            let known = match &node.inventory {
                Some(inventory) => SavedNode::read(&beside(inventory))?,
                None => SavedNode::default(),
            };
            let known = known.with(node.facts, &node.classes)?;
            nodes.insert(name, (known, node.data));
        }
        let mut ready = Vec::new();
        for mut case in file.cases {
            let (node, data) = match &case.node {
                None => (SavedNode::default(), Supposed::default()),
                Some(name) => nodes
                    .get(name)
                    .cloned()
                    .ok_or_else(|| wrong(format!("there is no [nodes.{name}]")))?,
            };
            let facts = std::mem::take(&mut case.facts);
            let node = node.with(facts, &case.classes)?;
            let at = case.at.as_deref().map(instant).transpose();
            let at = at.map_err(|error| wrong(error.to_string()))?;
            let data = data.and(&case.data);
            ready.push(Ready {
                case,
                node,
                data,
                at,
            });
        }
        let policies = beside(&file.policies);
        Ok(Self {
            policies: if policies.as_os_str().is_empty() {
                PathBuf::from(".")
            } else {
                policies
            },
            default: file.default,
            ready,
        })
    }

    /// Asks the policies. `now` is the time of cases that say none.
    pub fn run(&self, policies: &PolicySet, now: Millis) -> Vec<Outcome> {
        let outcome = |ready: &Ready| {
            let (case, node) = (&ready.case, &ready.node.view());
            let question = Question {
                caller: &case.caller,
                agent: &case.agent,
                action: &case.action,
                node,
                now: ready.at.unwrap_or(now),
            };
            Outcome {
                name: case.title(),
                expected: case.expect,
                expected_rule: case.rule.clone(),
                found: policies.explain(&question, &ready.data.known()),
            }
        };
        self.ready.iter().map(outcome).collect()
    }
}

impl Case {
    fn title(&self) -> String {
        let node = self.node.as_ref().map(|node| format!(" on {node}"));
        self.name.clone().unwrap_or_else(|| {
            let (caller, agent, action) = (&self.caller, &self.agent, &self.action);
            format!("{caller}: {agent} {action}{}", node.unwrap_or_default())
        })
    }
}
