//! The names and values that completion offers besides commands and options: from DDLs, seen names, jobs, and the built-in resource types.

use std::cell::{Cell, LazyCell};
use std::collections::BTreeMap;

use clap::Arg;
use muster_calls::{DdlStore, DiscoveryMethod};
use muster_contract::puppetral::PuppetralAgent;
use muster_contract::rpcutil::{RpcutilAgent, RpcutilGetFact};
use muster_ddl::{
    Action as _, ActionSchema, AgentContract as _, AgentDdl, InputSchema, ResourceTypeAttributes,
    ValueType, builtin_resource_types,
};

use crate::commands::completion::engine::CompletionCandidate;
use crate::session::seen_names::SeenNamesCache;

/// The agent whose inputs depend on the type of a resource.
const PUPPETRAL_AGENT: &str = PuppetralAgent::NAME;
const RPCUTIL_AGENT: &str = RpcutilAgent::NAME;
const TYPE_INPUT: &str = "type";
/// The action of `rpcutil` whose input is the name of a fact.
const GET_FACT_ACTION: &str = RpcutilGetFact::NAME;

/// Reads the jobs when they are needed.
type JobReader<'a> = Box<dyn FnOnce() -> Vec<CompletionCandidate> + 'a>;

/// Completion sources besides commands and options.
#[derive(Debug)]
pub struct CompletionSources<'a> {
    agents: &'a DdlStore,
    seen: &'a SeenNamesCache,
    jobs: LazyCell<Vec<CompletionCandidate>, JobReader<'a>>,
    contexts: Vec<String>,
    /// Whether names of nodes were asked for.
    nodes_wanted: Cell<bool>,
}

impl<'a> CompletionSources<'a> {
    /// The jobs are read only if they are needed.
    pub fn new(
        agents: &'a DdlStore,
        seen: &'a SeenNamesCache,
        jobs: impl FnOnce() -> Vec<CompletionCandidate> + 'a,
    ) -> Self {
        let jobs: LazyCell<_, JobReader<'a>> = LazyCell::new(Box::new(jobs));
        Self { agents, seen, jobs, contexts: Vec::new(), nodes_wanted: Cell::new(false) }
    }

    #[must_use]
    pub fn with_contexts(mut self, contexts: Vec<String>) -> Self {
        self.contexts = contexts;
        self
    }

    pub fn are_nodes_wanted(&self) -> bool {
        self.nodes_wanted.get()
    }

    /// Values of an option or argument, if they can be listed.
    pub fn value_candidates(&self, arg: &Arg, current: &str) -> Vec<CompletionCandidate> {
        let possible = arg.get_possible_values();
        if !possible.is_empty() {
            let shown = possible.iter().filter(|value| !value.is_hide_set());
            return shown
                .map(|value| CompletionCandidate::new(value.get_name(), value.get_help()))
                .collect();
        }
        let names = arg.get_value_names().unwrap_or_default();
        match (arg.get_id().as_str(), names.first().map(clap::builder::Str::as_str)) {
            ("display", _) => {
                ["ok", "failed", "all", "none"].map(CompletionCandidate::without_help).into()
            }
            ("context", _) | (_, Some("CONTEXT")) => plain_candidates(&self.contexts),
            (_, Some("NODE")) => {
                self.nodes_wanted.set(true);
                plain_candidates(&self.seen.nodes)
            }
            (_, Some("CLASS")) => plain_candidates(&self.seen.classes),
            (_, Some("AGENT")) => self.known_agent_candidates(),
            (_, Some("FACT")) => plain_candidates(self.seen.facts.keys()),
            (_, Some("FACT=VALUE")) => self.fact_candidates(current),
            (_, Some("WORDS")) => {
                let classes = plain_candidates(&self.seen.classes);
                classes.into_iter().chain(self.fact_candidates(current)).collect()
            }
            (_, Some("JOB" | "ID")) => Vec::clone(&self.jobs),
            (_, Some("METHOD")) => {
                plain_candidates(DiscoveryMethod::ALL.iter().map(|method| method.name()))
            }
            _ => Vec::new(),
        }
    }

    /// The agents that have a DDL, so that their actions can be called.
    pub fn agent_candidates(&self) -> Vec<CompletionCandidate> {
        let candidate = |ddl: &AgentDdl| {
            CompletionCandidate::new(ddl.name(), Some(&ddl.metadata().description))
        };
        self.agents.all().map(candidate).collect()
    }

    /// Those agents, and others that nodes offer.
    fn known_agent_candidates(&self) -> Vec<CompletionCandidate> {
        let mut candidates = self.agent_candidates();
        let others = self.seen.agents.iter().filter(|name| self.agents.get(name).is_none());
        candidates.extend(others.map(CompletionCandidate::without_help));
        candidates
    }

    /// `FACT=`, or the seen values of the fact that is typed already.
    fn fact_candidates(&self, current: &str) -> Vec<CompletionCandidate> {
        match current.split_once('=') {
            None => plain_candidates(self.seen.facts.keys().map(|name| format!("{name}="))),
            Some((name, _)) => {
                let values = self.seen.facts.get(name).into_iter().flatten();
                plain_candidates(values.map(|value| format!("{name}={value}")))
            }
        }
    }

    /// Candidates after the agent of a request: an action, then inputs that are not given yet.
    pub fn request_candidates(&self, words: &[&str], current: &str) -> Vec<CompletionCandidate> {
        let Some((ddl, rest)) =
            words.split_first().and_then(|(agent, rest)| Some((self.agents.get(agent)?, rest)))
        else {
            return Vec::new();
        };
        let (named, given) = match rest.split_first() {
            Some((first, given)) if !first.contains('=') => (Some(*first), given),
            _ => (None, rest),
        };
        let action = named.or(ddl.default_action()).and_then(|name| ddl.find_action(name));
        let mut candidates = if rest.is_empty() { action_candidates(ddl) } else { Vec::new() };
        let given: BTreeMap<&str, &str> =
            given.iter().filter_map(|word| word.split_once('=')).collect();
        if let Some(action) = action {
            candidates.extend(self.input_candidates(ddl.name(), action, &given, current));
        }
        candidates
    }

    /// Inputs that are not given yet as `NAME=`, or the values of the input that is typed already.
    fn input_candidates(
        &self,
        agent: &str,
        action: &ActionSchema,
        given: &BTreeMap<&str, &str>,
        current: &str,
    ) -> Vec<CompletionCandidate> {
        let resource_type = (agent == PUPPETRAL_AGENT && action.additional_input())
            .then(|| builtin_resource_types().get(*given.get(TYPE_INPUT)?))
            .flatten();
        if let Some((name, _)) = current.split_once('=') {
            let declared =
                action.find_input(name).map(|input| self.input_values((agent, action), input));
            let values = declared.or_else(|| Some(attribute_values(resource_type?, name)));
            let values = values.unwrap_or_default().into_iter();
            return plain_candidates(values.map(|value| format!("{name}={value}")));
        }
        let declared = action.inputs().iter().map(|input| {
            let help =
                if input.description.is_empty() { &input.prompt } else { &input.description };
            (input.name.as_str(), help.as_str())
        });
        let attributes = resource_type.into_iter().flat_map(|found| &found.attributes);
        let attributes = attributes
            .filter(|(name, _)| action.find_input(name).is_none())
            .map(|(name, attribute)| (name.as_str(), attribute.description.as_str()));
        let missing = declared.chain(attributes).filter(|(name, _)| !given.contains_key(name));
        missing
            .map(|(name, help)| CompletionCandidate::new(format!("{name}="), Some(help)))
            .collect()
    }

    /// Values of an input, if they can be listed.
    fn input_values(
        &self,
        (agent, action): (&str, &ActionSchema),
        input: &InputSchema,
    ) -> Vec<String> {
        match (agent, action.name(), input.name.as_str()) {
            (PUPPETRAL_AGENT, _, TYPE_INPUT) => builtin_resource_types().keys().cloned().collect(),
            (RPCUTIL_AGENT, GET_FACT_ACTION, "fact") => self.seen.facts.keys().cloned().collect(),
            _ => listable_values(input),
        }
    }
}

fn plain_candidates(
    words: impl IntoIterator<Item = impl Into<String>>,
) -> Vec<CompletionCandidate> {
    words.into_iter().map(CompletionCandidate::without_help).collect()
}

fn action_candidates(ddl: &AgentDdl) -> Vec<CompletionCandidate> {
    let candidate =
        |action: &ActionSchema| CompletionCandidate::new(action.name(), Some(action.description()));
    ddl.actions().iter().map(candidate).collect()
}

fn listable_values(input: &InputSchema) -> Vec<String> {
    match input.value_type {
        ValueType::List => input.choices.clone(),
        ValueType::Boolean => ["true", "false"].map(str::to_owned).to_vec(),
        _ => input
            .default
            .iter()
            .filter(|_| !input.sensitive)
            .filter_map(|value| value.as_str().map(str::to_owned))
            .filter(|value| !value.is_empty())
            .collect(),
    }
}

/// The accepted values of an attribute of a resource; empty if they cannot be listed.
fn attribute_values(resource_type: &ResourceTypeAttributes, name: &str) -> Vec<String> {
    let attribute = resource_type.attributes.get(name);
    attribute.map(|attribute| attribute.values.clone()).unwrap_or_default()
}
