//! Completion of command lines in shells: which words could stand where the cursor is. Knows commands, options, agents,
//! actions, inputs and their values from the same definitions as everything else, and names of nodes and facts from what
//! was seen last. Asks nobody: a shell is waiting.

mod engine;
mod line;
pub mod memory;
mod script;

pub use engine::{CompletionSources, complete_word};
pub use line::{CompletionLine, CompletionShell};
pub use script::completion_script;
