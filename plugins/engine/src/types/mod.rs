//! One file per resource type, and the list of them all.

use crate::engine::ResourceType;

/// Every type that this engine knows, sorted by name.
pub fn all() -> Vec<Box<dyn ResourceType>> {
    vec![]
}
