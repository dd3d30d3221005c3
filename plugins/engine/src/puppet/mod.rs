//! The machine's own Puppet as a source of types, its own and custom ones: a resident Ruby process, started at the first
//! question, ended when nobody asks.
//!
//! - `protocol`: the words. `session`: the process. `resource_type`: a type of Puppet's as one of the engine's.
//! - `bridge.rb`: the other side.
//!
//! What Puppet's types generate, and what they ask to come after themselves, is not known here; order, noop, schedules, refreshes
//! and reports are the engine's.

mod protocol;
mod resource_type;
mod session;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_system::System;
use muster_system::command::CancelFlag;
use muster_system::error::error_chain;

use crate::error::EngineError;
use crate::resource_type::ResourceType;
use crate::type_source::ResourceTypeSource;
use protocol::{BridgeRequest, PuppetTypeDescription};
use resource_type::PuppetResourceType;
use session::{BridgeError, PuppetBridge};

/// How Puppet is started and how long it may take.
#[derive(Debug, Clone)]
pub struct PuppetBridgeOptions {
    /// The Ruby that has Puppet; where Puppet's own packages put it, or else the one in the path, when absent.
    pub ruby: Option<String>,
    /// Settings of Puppet by name (`confdir`, `vardir`, `modulepath`, ...); what is not named is as on this machine.
    pub settings: BTreeMap<String, String>,
    /// The longest that looking may take, and starting.
    pub look: Duration,
    /// The longest that one change or refresh may take.
    pub change: Duration,
    /// The longest that it stays without being asked.
    pub idle: Duration,
}

impl Default for PuppetBridgeOptions {
    fn default() -> Self {
        Self {
            ruby: None,
            settings: BTreeMap::new(),
            look: Duration::from_mins(1),
            change: Duration::from_mins(10),
            idle: Duration::from_secs(30),
        }
    }
}

/// The types of the machine's Puppet.
#[derive(Debug)]
pub struct PuppetTypes {
    sessions: Arc<PuppetBridge>,
    /// What was described, and by which process.
    known: Mutex<BTreeMap<String, CachedPuppetType>>,
}

/// A type that was asked about.
#[derive(Debug, Clone)]
struct CachedPuppetType {
    /// Which process described it.
    process: u64,
    described: PuppetTypeDescription,
    found: Arc<PuppetResourceType>,
}

impl PuppetTypes {
    /// Of this machine. Nothing is started yet.
    pub fn new(system: Arc<dyn System>, options: PuppetBridgeOptions) -> Self {
        Self {
            sessions: Arc::new(PuppetBridge::new(system, options)),
            known: Mutex::default(),
        }
    }

    /// Puppet's version, from the process that is kept.
    pub fn puppet_version(&self) -> Result<String, EngineError> {
        let asked = self.sessions.send_request::<protocol::VersionReply>(
            &BridgeRequest::for_type("ping", ""),
            &CancelFlag::default(),
        );
        asked
            .map(|answer| answer.ok.version)
            .map_err(|error| unavailable_error("puppet", &error))
    }

    /// The names of all types that it knows.
    pub fn type_names(&self) -> Result<Vec<String>, EngineError> {
        let request = BridgeRequest::for_type("types", "");
        let asked = self
            .sessions
            .send_request::<protocol::TypeNamesReply>(&request, &CancelFlag::default());
        asked
            .map(|answer| answer.ok.types)
            .map_err(|error| unavailable_error("*", &error))
    }

    /// Describes a type, unless the process at hand did already.
    fn describe_type(&self, name: &str) -> Result<Option<Arc<PuppetResourceType>>, BridgeError> {
        let request = BridgeRequest::for_type("describe", name);
        let described = match self
            .sessions
            .send_request::<PuppetTypeDescription>(&request, &CancelFlag::default())
        {
            Ok(answer) => answer.ok,
            Err(BridgeError::UnknownType) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match known.remove(name) {
            Some(before) if before.described == described => before.found,
            _ => Arc::new(PuppetResourceType::new(
                name,
                &described,
                Arc::clone(&self.sessions),
            )),
        };
        let fresh = CachedPuppetType {
            process: self.sessions.generation(),
            described,
            found: Arc::clone(&found),
        };
        known.insert(name.to_owned(), fresh);
        Ok(Some(found))
    }
}

impl ResourceTypeSource for PuppetTypes {
    fn type_named(&self, name: &str) -> Result<Option<Arc<dyn ResourceType>>, EngineError> {
        if !is_name(name) {
            return Ok(None);
        }
        if self.sessions.root() != Path::new("/") {
            let problem = "Puppet, which may know it, manages only the machine that it runs on, not another root";
            return Err(EngineError::Unavailable {
                name: name.to_owned(),
                problem: problem.to_owned(),
            });
        }
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned();
        match known {
            Some(known) if known.process == self.sessions.generation() => Ok(Some(known.found)),
            _ => self
                .describe_type(name)
                .map(|found| found.map(|found| found as Arc<dyn ResourceType>))
                .map_err(|error| unavailable_error(name, &error)),
        }
    }
}

impl Drop for PuppetTypes {
    fn drop(&mut self) {
        self.sessions.stop_process();
    }
}

/// A name ends as part of a path to a file of Ruby code.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn unavailable_error(name: &str, error: &BridgeError) -> EngineError {
    EngineError::Unavailable {
        name: name.to_owned(),
        problem: error_chain(&error),
    }
}
