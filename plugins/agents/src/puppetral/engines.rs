//! Creates the engine of a request, with built-in types, types of external programs, and types of the machine's Puppet. Puppet's process is reused
//! between requests.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use muster_api::ActionError;
use muster_api::system::System;
use muster_engine::external::ExternalTypes;
use muster_engine::puppet::{self, PuppetTypes};
use muster_engine::{ResourceEngine, ResourceTypeSource};

use crate::engine_error::from_engine_error;
use crate::puppetral::options::Options;

/// Creates engines. Starts no process until a type is requested that is not built in.
#[derive(Debug)]
pub(crate) struct EngineFactory {
    pub(crate) options: Arc<Options>,
    type_source: OnceLock<Arc<dyn ResourceTypeSource>>,
}

impl EngineFactory {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self { options, type_source: OnceLock::new() }
    }

    /// An engine on this daemon's machine, which is the same in all requests.
    pub(crate) fn engine_for(&self, system: &Arc<dyn System>) -> ResourceEngine {
        let type_source = self.type_source.get_or_init(|| {
            let options = puppet::PuppetBridgeOptions {
                ruby: self.options.ruby.clone(),
                settings: self.options.puppet_settings.clone(),
                ..puppet::PuppetBridgeOptions::default()
            };
            let external = ExternalTypes::new(Arc::clone(system), &self.options.types_dir);
            let puppet = PuppetTypes::new(Arc::clone(system), options);
            let type_sources: Vec<Arc<dyn ResourceTypeSource>> =
                vec![Arc::new(external), Arc::new(puppet)];
            Arc::new(type_sources)
        });
        ResourceEngine::new(Arc::clone(system)).with_type_source(Arc::clone(type_source))
    }
}

/// The engine for reading a resource: for built-in types it starts only the engine's own read tools.
pub(crate) fn read_only_for_own_types(engine: ResourceEngine, type_name: &str) -> ResourceEngine {
    if engine.is_builtin_type(type_name) { engine.to_read_only() } else { engine }
}

/// Requires that an operator has allowed a foreign type by name, because its effects are unknown and may include running commands.
pub(crate) fn check_foreign(
    options: &Options,
    engine: &ResourceEngine,
    type_name: &str,
) -> Result<(), ActionError> {
    let named = |types: &BTreeSet<String>| types.contains(type_name);
    if engine.is_builtin_type(type_name) || options.allow_types.as_ref().is_some_and(named) {
        return Ok(());
    }
    if engine.empty_resource(type_name, "x").is_err() {
        let unknown = engine.without_type_source().empty_resource(type_name, "x").err();
        return unknown.map_or(Ok(()), |error| Err(from_engine_error(error)));
    }
    let message = format!(
        "{type_name} is not a built-in type; this node allows changes to it only if allow_types lists it"
    );
    Err(ActionError::denied_by_rule(message, "plugins.puppetral.allow_types"))
}
