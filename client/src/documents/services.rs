//! Documents of the answers of central services.

use schemars::JsonSchema;
use serde::Serialize;

/// A document of a service's answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ServiceDocument<'a, T> {
    /// Its schema, and its version.
    pub schema: &'static str,
    /// The answer.
    #[serde(flatten)]
    pub output: &'a T,
}
