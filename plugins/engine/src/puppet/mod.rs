//! Resource types of the installed Puppet, built-in and custom, through a resident Ruby process. The process starts on first
//! use and ends after an idle timeout.
//!
//! - `protocol`: the messages. `session`: the process. `resource_type`: adapts a Puppet type to the engine's type trait.
//! - `bridge.rb`: the Ruby program.
//!
//! Resources that Puppet types generate, and their `autobefore` relations, are not supported; order, noop, schedules, refreshes
//! and reports are done by the engine.

mod options;
mod protocol;
mod resource_type;
mod session;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use muster_base::error_chain;
use muster_system::System;
use muster_system::command::CancelFlag;

use crate::error::{EngineError, Result};
use crate::resource_type::ResourceType;
use crate::type_source::{ResourceTypeSource, is_type_name};
pub use options::PuppetBridgeOptions;
use protocol::{BridgeRequest, PuppetTypeDescription};
use resource_type::PuppetResourceType;
use session::{BridgeError, PuppetBridge};

/// The types of the installed Puppet.
#[derive(Debug)]
pub struct PuppetTypes {
    bridge: Arc<PuppetBridge>,
    /// Cached descriptions, and the process that supplied each.
    types: Mutex<BTreeMap<String, CachedPuppetType>>,
}

#[derive(Debug, Clone)]
struct CachedPuppetType {
    /// The process that described it.
    generation: u64,
    description: PuppetTypeDescription,
    resource_type: Arc<PuppetResourceType>,
}

impl PuppetTypes {
    /// Starts nothing.
    pub fn new(system: Arc<dyn System>, options: PuppetBridgeOptions) -> Self {
        Self { bridge: Arc::new(PuppetBridge::new(system, options)), types: Mutex::default() }
    }

    /// Puppet's version, queried from the resident process.
    pub fn puppet_version(&self) -> Result<String> {
        let reply = self.bridge.send_request::<protocol::VersionReply>(
            &BridgeRequest::for_type("ping", ""),
            &CancelFlag::default(),
        );
        reply.map(|reply| reply.ok.version).map_err(|error| unavailable_error("puppet", &error))
    }

    pub fn type_names(&self) -> Result<Vec<String>> {
        let request = BridgeRequest::for_type("types", "");
        let reply =
            self.bridge.send_request::<protocol::TypeNamesReply>(&request, &CancelFlag::default());
        reply.map(|reply| reply.ok.types).map_err(|error| unavailable_error("*", &error))
    }

    /// Describes a type, unless the current process has already described it.
    fn describe_type(&self, name: &str) -> Result<Option<Arc<PuppetResourceType>>, BridgeError> {
        let request = BridgeRequest::for_type("describe", name);
        let reply = self.bridge.send_request(&request, &CancelFlag::default());
        let description: PuppetTypeDescription = match reply {
            Ok(reply) => reply.ok,
            Err(BridgeError::UnknownType) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        let resource_type = match types.remove(name) {
            Some(previous) if previous.description == description => previous.resource_type,
            _ => Arc::new(PuppetResourceType::new(name, &description, Arc::clone(&self.bridge))),
        };
        let new_entry = CachedPuppetType {
            generation: self.bridge.generation(),
            description,
            resource_type: Arc::clone(&resource_type),
        };
        types.insert(name.to_owned(), new_entry);
        Ok(Some(resource_type))
    }
}

impl ResourceTypeSource for PuppetTypes {
    fn type_named(&self, name: &str) -> Result<Option<Arc<dyn ResourceType>>> {
        if !is_type_name(name) {
            return Ok(None);
        }
        if self.bridge.root() != Path::new("/") {
            let problem =
                "Puppet, which may have it, can only manage the node itself, not another root";
            let (name, problem) = (name.to_owned(), problem.to_owned());
            return Err(EngineError::Unavailable { name, problem });
        }
        let cached = self.types.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        match cached {
            Some(cached) if cached.generation == self.bridge.generation() => {
                Ok(Some(cached.resource_type))
            }
            _ => self
                .describe_type(name)
                .map(|found| found.map(|found| found as Arc<dyn ResourceType>))
                .map_err(|error| unavailable_error(name, &error)),
        }
    }
}

impl Drop for PuppetTypes {
    fn drop(&mut self) {
        self.bridge.stop_process();
    }
}

fn unavailable_error(name: &str, error: &BridgeError) -> EngineError {
    EngineError::Unavailable { name: name.to_owned(), problem: error_chain(&error) }
}
