//! What every command needs: settings, environment, names that were seen, confirmation, and hints for errors.

pub mod broker_program;
pub mod change_scope;
pub mod context;
pub mod environment;
pub mod errors;
pub mod form;
pub mod remote_machine;
pub mod remote_shell;
pub mod seen;
pub mod seen_names;
pub mod suggest;
pub mod terminal;
