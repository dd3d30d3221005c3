//! Shell completion of commands, options, agents, actions, inputs and their values from their definitions; node and fact names come from a cache of
//! recently seen names. Sends no requests, because the shell is waiting.

mod engine;
mod line;
pub mod memory;
mod script;

pub use engine::{CompletionSources, complete_word};
pub use line::{CompletionLine, CompletionShell};
pub use script::completion_script;
