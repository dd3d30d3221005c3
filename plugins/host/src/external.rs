//! External agents: programs in any language. They are found in directories and checked against their DDLs. Each call runs in one process group; a
//! crash, a hang, a flood or an invalid reply becomes an error reply.
//!
//! - [`options`]: the configuration section. [`agent_directory`]: the current set of agents while files are added, changed and removed.
//! - `ddl_files`: which files count, and which users could have written them. `candidate`: from a DDL file to an agent.
//! - [`protocol`]: requests and replies as bytes (Choria's external agent protocol v1, `MCollective`'s convention for scripts). `action`: one call.
//!   `process`: one process group, from start to exit.

mod action;
pub mod agent_directory;
mod call_directory;
mod candidate;
mod ddl_files;
mod enforcement;
pub mod options;
mod process;
mod program_log;
pub mod protocol;

pub use agent_directory::{AgentChange, AgentDirectory, AgentFileProblem, ScanMode};
pub use candidate::{AccountError, find_account};
pub use enforcement::describe_enforcement;
pub use options::{ConfinementMode, ExternalAgentOptions, ExternalOptions};
pub use process::{SandboxHelper, SandboxedProgram};
