//! Agents that are programs of their own, in any language: found in directories, held against their DDLs, run one process
//! group a call, and answered for when they crash, hang, flood or lie.
//!
//! - [`options`]: what the configuration says. [`agent_directory`]: which agents there are now, while files come, change and go.
//! - `place`: which files count, and who could have written them. `draft`: from a DDL's file to an agent.
//! - [`protocol`]: what is asked and answered, as bytes (Choria's external agent protocol v1, `MCollective`'s convention for
//!   scripts). `action`: one call. `process`: one process group, from its start to its end.

mod action;
pub mod agent_directory;
mod candidate;
mod ddl_files;
mod enforcement;
pub mod options;
mod process;
pub mod protocol;

pub use agent_directory::{AgentChange, AgentDirectory, AgentFileProblem, ScanMode};
pub use enforcement::describe_enforcement;
pub use options::{ConfinementMode, ExternalAgentOptions, ExternalOptions};
pub use process::SandboxHelper;
