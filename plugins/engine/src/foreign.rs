//! Where types come from that are not the engine's own: another program that knows them.

use std::fmt;
use std::sync::Arc;

use crate::error::EngineError;
use crate::resource_type::ResourceType;

/// Somebody who knows more types. Asked only for what the engine does not know itself.
pub trait Foreign: fmt::Debug + Send + Sync {
    /// The type of that name; `None` when it knows none. The error is [`EngineError::Unavailable`] when it cannot be asked.
    fn type_named(&self, name: &str) -> Result<Option<Arc<dyn ResourceType>>, EngineError>;
}

/// Several, asked one after the other. One that cannot be asked does not keep the next from knowing.
impl Foreign for Vec<Arc<dyn Foreign>> {
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
