//! Sources of resource types that are not built in.

use std::fmt;
use std::sync::Arc;

use muster_system::System;

use crate::error::Result;
use crate::external::{self, ExternalTypes};
use crate::puppet::{self, PuppetTypes};
use crate::resource_type::ResourceType;

/// Provides additional types. Queried only for types that are not built in.
pub trait ResourceTypeSource: fmt::Debug + Send + Sync {
    /// The type of that name; `None` if the source does not have it. [`EngineError::Unavailable`](crate::EngineError::Unavailable) if the source cannot be queried.
    fn type_named(&self, name: &str) -> Result<Option<Arc<dyn ResourceType>>>;
}

/// Whether the text can name a type. It becomes part of the path of a file, so its characters are restricted.
pub(crate) fn is_type_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// External programs in the default directory, then the installed Puppet with its default settings.
pub fn machine_type_sources(system: &Arc<dyn System>) -> Arc<dyn ResourceTypeSource> {
    let external = ExternalTypes::new(Arc::clone(system), external::TYPES_DIRECTORY);
    let puppet = PuppetTypes::new(Arc::clone(system), puppet::PuppetBridgeOptions::default());
    let sources: Vec<Arc<dyn ResourceTypeSource>> = vec![Arc::new(external), Arc::new(puppet)];
    Arc::new(sources)
}

/// Queries several sources in order. An unavailable source does not prevent the following ones from being queried.
impl ResourceTypeSource for Vec<Arc<dyn ResourceTypeSource>> {
    fn type_named(&self, name: &str) -> Result<Option<Arc<dyn ResourceType>>> {
        let mut result = Ok(None);
        for source in self {
            match source.type_named(name) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => result = Err(error),
            }
        }
        result
    }
}
