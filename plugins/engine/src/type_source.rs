//! Where types come from that are not the engine's own: another program that knows them.

use std::fmt;
use std::sync::Arc;

use muster_system::System;

use crate::error::EngineError;
use crate::external::{self, ExternalTypes};
use crate::puppet::{self, PuppetTypes};
use crate::resource_type::ResourceType;

/// Somebody who knows more types. Asked only for what the engine does not know itself.
pub trait ResourceTypeSource: fmt::Debug + Send + Sync {
    /// The type of that name; `None` when it knows none. The error is [`EngineError::Unavailable`] when it cannot be asked.
    fn type_named(&self, name: &str) -> Result<Option<Arc<dyn ResourceType>>, EngineError>;
}

/// Programs that are described where they usually are, then the machine's Puppet with its own settings.
pub fn machine_type_sources(system: &Arc<dyn System>) -> Arc<dyn ResourceTypeSource> {
    let external = ExternalTypes::new(Arc::clone(system), external::TYPES_DIRECTORY);
    let puppet = PuppetTypes::new(Arc::clone(system), puppet::PuppetBridgeOptions::default());
    let others: Vec<Arc<dyn ResourceTypeSource>> = vec![Arc::new(external), Arc::new(puppet)];
    Arc::new(others)
}

/// Several, asked one after the other. One that cannot be asked does not keep the next from knowing.
impl ResourceTypeSource for Vec<Arc<dyn ResourceTypeSource>> {
    fn type_named(&self, name: &str) -> Result<Option<Arc<dyn ResourceType>>, EngineError> {
        let mut problem = Ok(None);
        for foreign in self {
            match foreign.type_named(name) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => problem = Err(error),
            }
        }
        problem
    }
}
