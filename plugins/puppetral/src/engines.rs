//! The engine of a request: the engine's own types, those of programs, and those of the machine's Puppet, whose process is kept
//! between requests.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use muster_api::ActionError;
use muster_api::system::System;
use muster_engine::external::ExternalTypes;
use muster_engine::puppet::{self, PuppetTypes};
use muster_engine::{Engine, Foreign};

use crate::options::Options;

/// Makes engines. Starts nothing before a type is asked for that is not the engine's own.
#[derive(Debug)]
pub(crate) struct Engines {
    options: Arc<Options>,
    others: OnceLock<Arc<dyn Foreign>>,
}

impl Engines {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            others: OnceLock::new(),
        }
    }

    /// An engine on the machine of this daemon, which is one and the same in all requests.
    pub(crate) fn on(&self, system: &Arc<dyn System>) -> Engine {
        let others = self.others.get_or_init(|| {
            let options = puppet::Options {
                ruby: self.options.ruby.clone(),
                settings: self.options.puppet_settings.clone(),
                ..puppet::Options::default()
            };
            let external = ExternalTypes::new(Arc::clone(system), &self.options.types_dir);
            let puppet = PuppetTypes::new(Arc::clone(system), options);
            let others: Vec<Arc<dyn Foreign>> = vec![Arc::new(external), Arc::new(puppet)];
            Arc::new(others)
        });
        Engine::new(Arc::clone(system)).with_foreign(Arc::clone(others))
    }
}

/// The engine that reads a resource of that type: its own types start nothing but the engine's reading tools.
pub(crate) fn own_read_only(engine: Engine, type_name: &str) -> Engine {
    if engine.is_own(type_name) {
        engine.read_only()
    } else {
        engine
    }
}

/// What a type of somebody else's does is not known to us, and may be to run commands: an operator has to name it.
pub(crate) fn check_foreign(
    options: &Options,
    engine: &Engine,
    type_name: &str,
) -> Result<(), ActionError> {
    let named = |types: &BTreeSet<String>| types.contains(type_name);
    if engine.is_own(type_name) || options.allow_types.as_ref().is_some_and(named) {
        return Ok(());
    }
    if engine.named(type_name, "x").is_err() {
        let unknown = engine.own_only().named(type_name, "x").err();
        return unknown.map_or(Ok(()), |error| Err(crate::refusal::of_engine(&error)));
    }
    let message = format!(
        "{type_name} is not a type of the engine's own, which this node lets be changed only if it is named in allow_types"
    );
    Err(ActionError::denied(
        message,
        "plugins.puppetral.allow_types",
    ))
}
