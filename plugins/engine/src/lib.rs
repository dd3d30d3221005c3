//! Brings one machine to a described state: resources in, changes and events out.
//!
//! A resource type has three verbs: read the machine, plan (a pure function of desired and found state), apply the plan.
//! Stopping after the plan is noop; the plan after an apply is empty. Semantics are Puppet 7's.
//!
//! - [`resource`]: what is desired. [`schema`]: what a type accepts. [`munge`]: words into values by a schema.
//! - [`plan`]: what would change. [`event`]: what did.
//! - [`types`]: one file per resource type. [`providers`]: the ways to the same end, behind a trait each.
//! - [`engine`]: the door: check, plan, apply, find, search by type name.

#![warn(missing_docs)]

pub mod engine;
pub mod error;
pub mod event;
pub mod munge;
pub mod plan;
pub mod providers;
pub mod resource;
pub mod resource_type;
pub mod schema;
pub mod types;

pub use engine::Engine;
pub use error::EngineError;
pub use resource_type::{Cx, Generates, ResourceType, Siblings, Wanted};
