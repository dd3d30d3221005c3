//! The node's facts: built-in facts, Facter's and cloud facts if enabled, enrolment facts, and external facts; later sources win.
//!
//! A source that fails is reported and keeps its last good facts; the other sources are unaffected. While a source has never succeeded, every fact
//! that it could set or override is unknown: policies deny by it, and filters do not match. The names follow Facter 4 (`os.family`,
//! `networking.ip`), so that filters and policies written for it work. Collection blocks: call it from a thread that may block. Filters compare
//! facts, not this module.

mod addresses;
mod builtin;
pub mod cloud;
mod error;
mod external;
pub mod hostname;
mod network;
mod os;
mod parse;
mod virtualization;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use muster_filter::state::NodeFacts;
use muster_system::System;
use muster_wire::identity::Identity;
use serde_json::{Map, Value};

pub use cloud::CloudCollector;
pub use error::{FactError, FactProblem};
use external::GatheredFacts;

use crate::ground::shared::{SharedValue, lock_mutex};

/// The name of the built-in collector in problem messages.
const BUILTIN_SOURCE: &str = "the built-in collector";
/// The name of the enrolment facts in problem messages.
const BOOTSTRAP_SOURCE: &str = "the bootstrap token";

#[derive(Debug, Clone)]
pub struct FactSources {
    /// The node's name; always the fact `identity`, which no source can override.
    pub identity: Identity,
    /// The directory of external facts.
    pub facts_d: PathBuf,
    /// The `facter` command, if enabled.
    pub facter: Option<PathBuf>,
    /// The cloud metadata service, if enabled.
    pub cloud: Option<CloudCollector>,
    /// Facts from the enrolment.
    pub given: BTreeMap<String, String>,
}

impl FactSources {
    /// The sources of a node with a directory of external facts and no other sources.
    pub fn new(identity: Identity, facts_d: PathBuf) -> Self {
        Self { identity, facts_d, facter: None, cloud: None, given: BTreeMap::new() }
    }
}

/// The machine that the facts describe, and the machine that the daemon runs on. They are the same unless the node's root is a scratch directory or
/// an image. Facter and executable facts run on the host.
#[derive(Debug, Clone, Copy)]
pub struct FactMachines<'a> {
    /// The machine that resources are applied to.
    pub node: &'a dyn System,
    /// The machine that the daemon runs on.
    pub host: &'a dyn System,
}

/// Collects once, without results of earlier collections.
pub fn collect_facts(
    machines: FactMachines<'_>,
    sources: &FactSources,
) -> (NodeFacts, Vec<FactProblem>) {
    let store = FactStore::new(sources.clone());
    let problems = store.reload(machines);
    (Arc::unwrap_or_clone(store.current()), problems)
}

/// The node's current facts. Readers get one complete collection and never wait for a running one.
#[derive(Debug)]
pub struct FactStore {
    sources: FactSources,
    current: SharedValue<NodeFacts>,
    /// The last good facts of each source. Locked during a collection, so that only one runs at a time.
    last_good: Mutex<BTreeMap<String, Map<String, Value>>>,
}

impl FactStore {
    /// A store whose facts are unknown until [`FactStore::reload`].
    pub fn new(sources: FactSources) -> Self {
        let unknown = NodeFacts::default().with_known_names(BTreeSet::new());
        Self::with_facts(sources, Arc::new(unknown))
    }

    /// A store with these initial facts, for a virtual node.
    pub fn with_facts(sources: FactSources, facts: Arc<NodeFacts>) -> Self {
        Self { sources, current: facts.into(), last_good: Mutex::default() }
    }

    pub fn current(&self) -> Arc<NodeFacts> {
        self.current.get()
    }

    /// Collects and replaces the current facts as a whole. Returns the problems.
    pub fn reload(&self, machines: FactMachines<'_>) -> Vec<FactProblem> {
        let mut last_good = lock_mutex(&self.last_good);
        let mut problems = Vec::new();
        let mut collected = Vec::new();
        for (name, facts) in self.gather_sources(machines, &last_good) {
            let facts = match facts {
                Ok(facts) => Some(facts),
                Err(error) => {
                    let last_facts = last_good.get(&name).cloned();
                    problems.push(FactProblem {
                        source_name: name.clone(),
                        error,
                        uses_last_good: last_facts.is_some(),
                    });
                    last_facts
                }
            };
            collected.push((name, facts));
        }
        let facts = merge_sources(&collected, &self.sources.identity, &mut problems);
        self.current.set(facts);
        let collected = collected.into_iter();
        *last_good = collected.filter_map(|(name, facts)| Some((name, facts?))).collect();
        problems
    }

    /// Collects every source, in order of increasing precedence.
    fn gather_sources(
        &self,
        machines: FactMachines<'_>,
        last_good: &BTreeMap<String, Map<String, Value>>,
    ) -> Vec<GatheredFacts> {
        let mut gathered =
            vec![(BUILTIN_SOURCE.to_owned(), Ok(builtin::collect_builtin(machines.node)))];
        let facter = self.sources.facter.as_ref();
        gathered.extend(facter.map(|program| external::run_facter(machines.host, program)));
        let cloud = self.sources.cloud.as_ref();
        gathered.extend(cloud.map(|cloud| (cloud::CLOUD_SOURCE.to_owned(), cloud.collect_facts())));
        if !self.sources.given.is_empty() {
            let given = self.sources.given.iter();
            let given = given.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            gathered.push((BOOTSTRAP_SOURCE.to_owned(), Ok(given.collect())));
        }
        let directory = self.sources.facts_d.display().to_string();
        match external::gather_directory(machines.host, &self.sources.facts_d) {
            Ok(sources) => {
                // The directory listing is a source too: after it, the set of files is known.
                gathered.push((directory, Ok(Map::new())));
                gathered.extend(sources);
            }
            Err(error) => {
                let prefix = format!("{directory}/");
                let last_facts = last_good.iter().filter(|(name, _)| name.starts_with(&prefix));
                gathered.extend(last_facts.map(|(name, facts)| (name.clone(), Ok(facts.clone()))));
                gathered.push((directory, Err(error)));
            }
        }
        gathered
    }
}

/// Merges sources in order of increasing precedence. A source that would exceed the total size limit is left out. A source without facts makes
/// every fact that it could set or override unknown: all except the identity and the names that later sources set.
fn merge_sources(
    sources: &[(String, Option<Map<String, Value>>)],
    identity: &Identity,
    problems: &mut Vec<FactProblem>,
) -> NodeFacts {
    let mut merged = NodeFacts::default();
    let mut complete = true;
    let mut known_names = BTreeSet::new();
    for (name, facts) in sources {
        let Some(facts) = facts else {
            (complete, known_names) = (false, BTreeSet::new());
            continue;
        };
        let mut candidate = merged.as_map().clone();
        candidate.extend(facts.clone());
        candidate.insert("identity".to_owned(), Value::String(identity.to_string()));
        match NodeFacts::from_map(candidate) {
            Ok(candidate) => {
                merged = candidate;
                known_names.extend(facts.keys().cloned());
            }
            Err(error) => {
                (complete, known_names) = (false, BTreeSet::new());
                problems.push(FactProblem {
                    source_name: name.clone(),
                    error: error.into(),
                    uses_last_good: false,
                });
            }
        }
    }
    if complete {
        return merged;
    }
    known_names.insert("identity".to_owned());
    merged.with_known_names(known_names)
}

#[cfg(test)]
mod tests;
