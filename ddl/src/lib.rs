//! Schemas (DDLs) of agents and data sources, and everything that follows from a schema alone: validation, coercion of
//! command-line arguments, display rules, summaries and documentation.
//!
//! Pure functions of values. Reads no files, opens no connections, runs no agents.

#![warn(missing_docs)]

mod action;
pub mod aggregate;
mod attributes;
mod builtin;
mod check;
mod check_value;
mod coerce;
mod data;
mod display;
pub mod doc;
mod error;
mod input;
mod metadata;
mod ordered_json;
mod output;
mod parse;
mod program;
mod resource_types;
mod schema;
pub mod validate;
mod value_schema;
mod value_type;
mod violation;

pub use action::{
    Action, ActionList, ActionProperties, AgentContract, EmptyInput, OutputAggregate,
};
pub use attributes::AttributeChecking;
pub use builtin::{BUILTIN_AGENTS, BUILTIN_DATA_SOURCES, builtin_agent, builtin_data};
pub use data::{DataDdl, DataExample};
pub use display::{DisplayMode, DisplayOverride, UnknownOverride};
pub use error::{
    DataQueryError, DdlError, DefinitionProblem, InputValidationError, OutputValidationError,
};
pub use ordered_json::{OrderedJson, OrderedMap};
pub use parse::MAX_DDL_BYTES;
pub use program::{MAX_TEMPLATE_BYTES, TEMPLATE_ADVICE, finds_action_by_text};
pub use resource_types::{
    AttributeForm, ResourceAttribute, ResourceTypeAttributes, builtin_resource_types,
};
pub use schema::{
    ActionClass, ActionExample, ActionSchema, AgentCapabilities, AgentDdl, AggregateSchema,
    DdlMetadata, InputSchema, OutputSchema, ResourceInputs,
};
pub use value_schema::{MAX_SCHEMA_BYTES, ValueSchema, ValueSchemaError};
pub use value_type::ValueType;
pub use violation::ValueViolation;

/// Replaces a sensitive value wherever it would be displayed.
pub const REDACTED: &str = "[redacted]";

type JsonObject = serde_json::Map<String, serde_json::Value>;
