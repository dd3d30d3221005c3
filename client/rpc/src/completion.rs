//! Shell completion of commands, options, agents, actions, inputs and their values from their definitions; names of nodes, classes and facts come
//! from a cache of recently seen names. Sends no requests to nodes, because the shell is waiting; only the directory is asked for names of nodes.

mod engine;
mod line;
pub mod memory;
mod script;
mod sources;
mod suggest;

pub use engine::{CompletionCandidate, complete_word};
pub use line::{CompletionLine, CompletionShell};
pub use script::completion_script;
pub use sources::CompletionSources;
pub use suggest::{find_full_name, is_short_name, suggest_names, suggest_nodes};
