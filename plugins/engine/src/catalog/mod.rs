//! The catalog: all resources of one machine, their containers, and the order in which they were written.
//!
//! Syntax only. [`puppet`] and [`short_form`] parse the two input formats, `static_sources` the metadata of files in the first one;
//! `crate::resolved_catalog` validates resources against their types.

pub mod puppet;
mod reference;
mod rich_data;
pub mod short_form;
mod static_sources;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::static_files::StaticSources;
pub use reference::ResourceReference;
pub use static_sources::FileMetadataError;

pub const MAX_CATALOG_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of resources and containers in a catalog, and files in its directories. A run needs about 7 KiB of memory for each, about 350 MiB at this limit.
pub const MAX_RESOURCES: usize = 50_000;

/// The desired state of one machine.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The name of the machine.
    pub name: String,
    /// Version of the configuration: a number or a string.
    pub version: Json,
    pub environment: String,
    /// UUID of the compilation.
    pub uuid: Option<String>,
    pub code_id: Option<String>,
    /// Class names in lower case.
    pub classes: Vec<String>,
    /// Resources and containers in catalog order.
    pub entries: Vec<CatalogEntry>,
    /// Non-fatal problems found while parsing.
    pub warnings: Vec<String>,
}

/// One resource or container.
#[derive(Clone)]
pub struct CatalogEntry {
    /// `File[/etc/motd]`, `Class[Web]`.
    pub reference: ResourceReference,
    /// Whether it only contains other resources.
    pub is_container: bool,
    /// Its container, as an index into [`Catalog::entries`].
    pub container: Option<usize>,
    /// Tags for selection, in order.
    pub tags: Vec<String>,
    /// The source file of the definition.
    pub file: Option<String>,
    pub line: Option<u64>,
    /// Properties, parameters and metaparameters as written.
    pub attributes: Map<String, Json>,
    /// Names of attributes whose values must never be displayed.
    pub sensitive: BTreeSet<String>,
    /// Exported for other machines; not applied here.
    pub is_virtual: bool,
    /// What a static catalog says of the sources of a `file`.
    pub static_sources: Option<Arc<StaticSources>>,
}

impl fmt::Debug for CatalogEntry {
    /// Prints attribute names without values, because a value may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("reference", &self.reference)
            .field("attributes", &self.attributes.keys())
            .finish_non_exhaustive()
    }
}

impl CatalogEntry {
    /// A resource without attributes.
    pub fn new(reference: ResourceReference, is_container: bool) -> Self {
        Self {
            reference,
            is_container,
            container: None,
            tags: Vec::new(),
            file: None,
            line: None,
            attributes: Map::new(),
            sensitive: BTreeSet::new(),
            is_virtual: false,
            static_sources: None,
        }
    }

    /// Adds a tag unless already present.
    pub fn add_tag(&mut self, tag: &str) {
        let tag = tag.to_lowercase();
        if !self.tags.contains(&tag) {
            self.tags.push(tag);
        }
    }

    /// The name of the entry in a containment path: for a class, the name only.
    pub fn path_name(&self) -> String {
        if self.is_container && self.reference.type_name == "class" {
            self.reference.class_name()
        } else {
            self.reference.to_string()
        }
    }
}

/// Reasons to reject a catalog. Nothing has been changed on the machine.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("the catalog is not valid {format}")]
    Malformed {
        /// `JSON` or `TOML`.
        format: &'static str,
        /// The parser's error with its position.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// More resources than the memory limit of a run allows.
    #[error(
        "the catalog has {count} resources, containers and files in directories, more than the limit of {MAX_RESOURCES}; split it"
    )]
    TooMany {
        /// Number of resources, containers and files.
        count: usize,
    },
    /// A key is missing or has the wrong type.
    #[error("{location}: `{key}` {problem}")]
    Key {
        /// Location: `the catalog`, `File[/etc/motd]`.
        location: String,
        key: String,
        /// The problem and the expected value.
        problem: String,
    },
    /// The metadata of a file in a static catalog.
    #[error(transparent)]
    Metadata(#[from] FileMetadataError),
    #[error("`{text}` is not a resource reference such as `File[/etc/motd]`")]
    Reference { text: String },
    /// Two resources with one name, or an alias that is already in use.
    #[error("{reference} is declared twice{}", locations.as_deref().map(|locations| format!(": {locations}")).unwrap_or_default())]
    Duplicate {
        reference: String,
        /// The known source locations.
        locations: Option<String>,
    },
    /// A containment edge or relationship with an unknown target.
    #[error("could not find dependency {missing} for {resource}")]
    Missing {
        missing: String,
        /// The resource that refers to it.
        resource: String,
    },
    /// A value that only Puppet itself can evaluate.
    #[error("{resource}: `{name}` {problem}")]
    Unsupported {
        resource: String,
        /// The parameter.
        name: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// A type rejected a value.
    #[error(transparent)]
    Resource(#[from] crate::error::EngineError),
}

impl Catalog {
    /// Detects the format: Puppet's JSON, a JSON list of resources, or TOML.
    pub fn parse(bytes: &[u8], host: &str) -> Result<Self, CatalogError> {
        let catalog = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => puppet::parse_puppet_json(bytes),
            Some(b'[') if !bytes.trim_ascii_start().starts_with(b"[[") => {
                short_form::parse_json(bytes, host)
            }
            _ => short_form::parse_toml(bytes, host),
        }?;
        let sources = catalog.entries.iter().filter_map(|entry| entry.static_sources.as_ref());
        let files: usize = sources.map(|sources| sources.entry_count()).sum();
        let count = catalog.entries.len() + files;
        if count > MAX_RESOURCES {
            return Err(CatalogError::TooMany { count });
        }
        Ok(catalog)
    }

    /// Names of the containers of an entry, outermost first, followed by its own name.
    pub fn containment_path(&self, entry: usize) -> Vec<String> {
        let mut path = Vec::new();
        let mut next = Some(entry);
        // Terminates even on a cycle; the parser already rejects containers that contain themselves.
        while let Some(entry) = next.and_then(|entry| self.entries.get(entry)) {
            path.push(entry.path_name());
            next = entry.container.filter(|_| path.len() <= self.entries.len());
        }
        path.reverse();
        path
    }
}
