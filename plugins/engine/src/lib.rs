//! Brings one machine to a described state: resources in, changes and events out.
//!
//! A resource type has three verbs: read the machine, plan (a pure function of desired and found state), apply the plan.
//! Stopping after the plan is noop; the plan after an apply is empty. Semantics are Puppet 7's.
//!
//! - [`resource`]: what is desired. [`schema`]: what a type accepts. [`munge`]: words into values by a schema.
//! - [`plan`]: what would change. [`event`]: what did.
//! - [`types`]: one file per resource type. [`providers`]: the ways to the same end, behind a trait each.
//! - [`type_source`]: where types come from that are not the engine's own. [`puppet`]: the machine's Puppet as such
//!   a place. [`external`]: programs in any language.
//! - [`engine`]: the door for one resource: check, plan, apply, find, search by type name.
//! - [`catalog`]: many resources and how they relate. [`run`]: the door for a catalog. [`ledger`]: refreshes that are owed.
//!   [`lint`]: what Puppet would lose. [`lock`]: one run at a time, Puppet's among them. [`report`]: what a run did. [`state_store`]: what is remembered from run to run.

#![warn(missing_docs)]

pub mod catalog;
pub mod engine;
pub mod error;
mod evaluation_cache;
pub mod event;
pub mod external;
mod graph;
pub mod ledger;
pub mod lint;
pub mod lock;
pub mod munge;
pub mod plan;
pub mod providers;
pub mod puppet;
mod read_only;
mod redact;
pub mod report;
mod resolved_catalog;
pub mod resource;
pub mod resource_type;
pub mod run;
pub mod schema;
pub mod state_store;
pub mod type_source;
pub mod types;
pub mod undo;

pub use engine::ResourceEngine;
pub use error::EngineError;
pub use resource_type::{
    AutorequireTarget, CatalogResources, FileSourceResolver, GenerationPhase, ResourceContext,
    ResourceType,
};
pub use type_source::ResourceTypeSource;
