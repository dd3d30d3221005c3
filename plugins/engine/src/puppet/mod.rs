//! Resource types of the installed Puppet, built-in and custom, through a resident Ruby process. The process starts on first
//! use and ends after an idle timeout.
//!
//! - `protocol`: the messages. `session`: the process. `resource_type`: adapts a Puppet type to the engine's type trait.
//! - `bridge.rb`: the Ruby program.
//!
//! Resources that Puppet types generate, and their `autobefore` relations, are not supported; order, noop, schedules, refreshes
//! and reports are done by the engine.

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

/// How Puppet is started, and its timeouts.
#[derive(Debug, Clone)]
pub struct PuppetBridgeOptions {
    /// The Ruby interpreter that has Puppet. Default: the one of Puppet's own packages, else the one in the path.
    pub ruby: Option<String>,
    /// Puppet settings by name (`confdir`, `vardir`, `modulepath`, ...); others keep the values of this machine.
    pub settings: BTreeMap<String, String>,
    /// Timeout of a read, and of the start of the process.
    pub look: Duration,
    /// Timeout of one change or refresh.
    pub change: Duration,
    /// Idle time after which the process ends.
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

/// The types of the installed Puppet.
#[derive(Debug)]
pub struct PuppetTypes {
    sessions: Arc<PuppetBridge>,
    /// Cached descriptions, and the process that supplied each.
    known: Mutex<BTreeMap<String, CachedPuppetType>>,
}

/// A cached type description.
#[derive(Debug, Clone)]
struct CachedPuppetType {
    /// The process that described it.
    process: u64,
    described: PuppetTypeDescription,
    found: Arc<PuppetResourceType>,
}

impl PuppetTypes {
    /// Types of the Puppet on this machine. Starts nothing.
    pub fn new(system: Arc<dyn System>, options: PuppetBridgeOptions) -> Self {
        Self {
            sessions: Arc::new(PuppetBridge::new(system, options)),
            known: Mutex::default(),
        }
    }

    /// Puppet's version, queried from the resident process.
    pub fn puppet_version(&self) -> Result<String, EngineError> {
        let asked = self.sessions.send_request::<protocol::VersionReply>(
            &BridgeRequest::for_type("ping", ""),
            &CancelFlag::default(),
        );
        asked
            .map(|answer| answer.ok.version)
            .map_err(|error| unavailable_error("puppet", &error))
    }

    /// The names of all types that Puppet provides.
    pub fn type_names(&self) -> Result<Vec<String>, EngineError> {
        let request = BridgeRequest::for_type("types", "");
        let asked = self
            .sessions
            .send_request::<protocol::TypeNamesReply>(&request, &CancelFlag::default());
        asked
            .map(|answer| answer.ok.types)
            .map_err(|error| unavailable_error("*", &error))
    }

    /// Describes a type, unless the current process has already described it.
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
            let problem =
                "Puppet, which may have it, can only manage the node itself, not another root";
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

/// The name becomes part of a path to a Ruby file, so its characters are restricted.
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
