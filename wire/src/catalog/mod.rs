//! Catalogs that are compiled before a node asks for them, as they are stored and signed. Pure: nothing reads a bucket.
//!
//! - [`CatalogAddress`]: the name of a catalog, its hash. [`CatalogSecrets`]: its sensitive values, which are stored beside it.
//! - [`CompiledCatalog`]: what a compiler signs and stores under `catalog.NODE.ADDRESS`, and [`open_compiled_catalog`], which a node calls before it applies one.
//! - [`content`]: the files that catalogs name. [`plugins`]: those that Puppet needs besides. [`release`]: which catalog each node is to have.
//!
//! A catalog is immutable and has no secrets in it, so its bytes may be compared, kept and shown. See [`crate::stores::CATALOGS_BUCKET`].

mod address;
mod compiled;
pub mod content;
mod files;
pub mod plugins;
pub mod release;
mod secrets;

pub use address::CatalogAddress;
pub use compiled::{
    CatalogRefusal, CatalogStatement, CompiledCatalog, OpenCatalog, catalog_key,
    open_compiled_catalog,
};
pub use files::{named_file, named_files};
pub use secrets::{CatalogSecrets, MissingSecret, has_secret};
