//! Documents of the answers of the scheduling service.

use schemars::JsonSchema;
use serde::Serialize;

/// A document of the service's answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ScheduleDocument<'a, T> {
    /// Its schema, and its version.
    pub schema: &'static str,
    /// The answer.
    #[serde(flatten)]
    pub output: &'a T,
}
