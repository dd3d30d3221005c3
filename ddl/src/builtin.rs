//! The DDLs of the built-in agents and data sources: the files of `agents/` and `data/`, as text.
//!
//! `build.rs` lists them; the tests check that each one is a valid DDL with the name of its file.

/// Name and document of every built-in agent, sorted by name.
pub const BUILTIN_AGENTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// The document of the built-in agent `name`.
pub fn builtin_agent(name: &str) -> Option<&'static str> {
    BUILTIN_AGENTS.iter().find(|(known, _)| *known == name).map(|(_, document)| *document)
}

/// Name and document of every built-in data source, sorted by name.
pub const BUILTIN_DATA_SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/data.rs"));

/// The document of the built-in data source `name`.
pub fn builtin_data(name: &str) -> Option<&'static str> {
    BUILTIN_DATA_SOURCES.iter().find(|(known, _)| *known == name).map(|(_, document)| *document)
}
