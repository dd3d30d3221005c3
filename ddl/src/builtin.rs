//! The DDLs of the agents that come with the product: the files of `agents/`, as text.
//!
//! `build.rs` lists them; the tests prove that each one is a valid DDL of the name it is kept by.

/// Name and document of every built-in agent, sorted by name.
pub const BUILTIN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// The document of the built-in agent `name`.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, document)| *document)
}
