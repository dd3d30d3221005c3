//! Configuration engine: applies a set of resources to one machine and reports the changes.
//!
//! A resource type has three operations: read the current state, compute a plan (a pure function of desired and current state), apply the plan.
//! Noop mode stops after the plan. A second plan after a successful apply is empty. Semantics follow Puppet 7.
//!
//! - [`resource`]: desired state. [`schema`]: the attributes a type accepts. [`munge`]: converts input values according to a schema.
//! - [`plan`]: pending changes. [`event`]: changes made.
//! - [`types`]: one file per resource type. [`providers`]: platform implementations, one trait per kind.
//! - [`type_source`]: sources of types outside the engine. [`puppet`]: types of the installed Puppet. [`external`]: types implemented by external
//!   programs.
//! - [`engine`]: API for a single resource: check, plan, find, search by type name. [`apply`]: applies it, with those that it generates.
//!   [`undo`]: records of replaced state, and how it is restored.
//! - [`catalog`]: resources and their relationships. [`static_files`]: what it says of the files that are copied. [`run`]: API for a whole
//!   catalog. [`ledger`]: pending refreshes. [`lint`]: notifications that stock Puppet can lose. [`lock`]: one run at a time, Puppet included.
//!   [`report`]: run reports. [`state_store`]: state kept between runs.

pub mod apply;
pub mod catalog;
pub mod engine;
pub mod error;
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
pub mod static_files;
pub mod type_source;
pub mod types;
pub mod undo;

pub use engine::ResourceEngine;
pub use error::EngineError;
pub use resource_type::{
    AutoRequire, BoundResource, CatalogResources, FileSourceResolver, GenerationPhase,
    ResourceContext, ResourceType,
};
pub use type_source::ResourceTypeSource;
