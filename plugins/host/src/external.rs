//! Agents that are programs of their own, in any language: found in directories, held against their DDLs, run one process
//! group a call, and answered for when they crash, hang, flood or lie.
//!
//! - [`options`]: what the configuration says. [`shelf`]: which agents there are now, while files come, change and go.
//! - `place`: which files count, and who could have written them. `draft`: from a DDL's file to an agent.
//! - [`protocol`]: what is asked and answered, as bytes (Choria's external agent protocol v1, `MCollective`'s convention for
//!   scripts). `action`: one call. `process`: one process group, from its start to its end.

mod action;
mod draft;
mod enforced;
pub mod options;
mod place;
mod process;
pub mod protocol;
pub mod shelf;

pub use enforced::enforced;
pub use options::{AgentOptions, Confine, Options};
pub use process::Helper;
pub use shelf::{Change, Problem, Settle, Shelf};
