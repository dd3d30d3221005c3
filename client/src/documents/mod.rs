//! Documents about a fleet, as commands print them for programs: a console and other clients can print the same.
//!
//! Every document has the name and version of its schema in `schema`. Within a version, fields are only added.

mod node_history;
mod nodes;
mod puppet_runs;
mod services;

pub use node_history::{NodeDifferenceDocument, NodeHistoryDocument};
pub use nodes::{RegisteredFacetsDocument, RegisteredNodesDocument};
pub use puppet_runs::{PuppetRunDocument, PuppetRunsDocument, PuppetRunsJsonLine};
pub use services::ServiceDocument;
