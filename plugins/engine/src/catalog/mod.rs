//! A catalog: every resource that a machine is to have, what contains what, and in which order it was written.
//!
//! Only what the words say. [`puppet`] and [`short_form`] read the two forms in which a catalog comes; `crate::world` judges the
//! resources by their types.

pub mod puppet;
mod reference;
mod rich_data;
pub mod short_form;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value as Json};

pub use reference::ResourceReference;

/// The largest catalog that is read, in bytes.
pub const MAX_CATALOG_BYTES: u64 = 64 * 1024 * 1024;

/// The most resources and containers of a catalog. A run needs about 7 KiB of memory for each, some 350 MiB at this limit.
pub const MAX_RESOURCES: usize = 50_000;

/// What a machine is to be.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// For which machine.
    pub name: String,
    /// Which edition of the configuration: a number or a text.
    pub version: Json,
    /// Puppet's environment.
    pub environment: String,
    /// The compilation's own identity.
    pub uuid: Option<String>,
    /// The code's identity.
    pub code_id: Option<String>,
    /// Names of the classes, lower case.
    pub classes: Vec<String>,
    /// Resources and containers, in the order in which they were written.
    pub entries: Vec<CatalogEntry>,
    /// What was odd about it, though it could be read.
    pub warnings: Vec<String>,
}

/// One resource or container.
#[derive(Clone)]
pub struct CatalogEntry {
    /// `File[/etc/motd]`, `Class[Web]`.
    pub reference: ResourceReference,
    /// Whether it only holds others.
    pub is_container: bool,
    /// Its container, as an index into [`Catalog::entries`].
    pub container: Option<usize>,
    /// Words by which it can be selected, in their order.
    pub tags: Vec<String>,
    /// In which file it was written.
    pub file: Option<String>,
    /// In which line.
    pub line: Option<u64>,
    /// Properties, parameters and metaparameters as they were written.
    pub words: Map<String, Json>,
    /// Names of words whose values are never shown.
    pub sensitive: BTreeSet<String>,
    /// Exported for other machines, not for this one.
    pub is_virtual: bool,
}

impl fmt::Debug for CatalogEntry {
    /// Names the words without showing them: a password may be among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("reference", &self.reference)
            .field("words", &self.words.keys())
            .finish_non_exhaustive()
    }
}

impl CatalogEntry {
    /// A resource of which nothing is said yet.
    pub fn new(reference: ResourceReference, is_container: bool) -> Self {
        Self {
            reference,
            is_container,
            container: None,
            tags: Vec::new(),
            file: None,
            line: None,
            words: Map::new(),
            sensitive: BTreeSet::new(),
            is_virtual: false,
        }
    }

    /// Adds a tag, once.
    pub fn add_tag(&mut self, tag: &str) {
        let tag = tag.to_lowercase();
        if !self.tags.contains(&tag) {
            self.tags.push(tag);
        }
    }

    /// How the entry is called in a containment path: a class by its name alone.
    pub fn path_name(&self) -> String {
        if self.is_container && self.reference.type_name == "class" {
            self.reference.class_name()
        } else {
            self.reference.to_string()
        }
    }
}

/// Why a catalog is not taken. Nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The bytes are not of the form.
    #[error("the catalog is not valid {form}")]
    Malformed {
        /// `JSON` or `TOML`.
        form: &'static str,
        /// Where and why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// More resources than a run has memory for.
    #[error(
        "the catalog has {count} resources and containers, more than the {MAX_RESOURCES} that are applied at once; split it"
    )]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A key is missing or of the wrong kind.
    #[error("{place}: `{key}` {problem}")]
    Key {
        /// `the catalog`, `File[/etc/motd]`.
        place: String,
        /// The key.
        key: String,
        /// What is wrong and what is expected.
        problem: String,
    },
    /// A text that should name a resource does not.
    #[error("`{text}` is no reference such as `File[/etc/motd]`")]
    Reference {
        /// The text.
        text: String,
    },
    /// Two resources of one name, or an alias that is taken.
    #[error("{reference} is there twice{}", at.as_deref().map(|at| format!(": {at}")).unwrap_or_default())]
    Duplicate {
        /// What is there twice.
        reference: String,
        /// What is known of the places.
        at: Option<String>,
    },
    /// A containment edge or a relationship that leads nowhere.
    #[error("could not find dependency {missing} for {resource}")]
    Missing {
        /// What is named and not there.
        missing: String,
        /// Who names it.
        resource: String,
    },
    /// A value that only Puppet itself could make sense of.
    #[error("{resource}: `{name}` {problem}")]
    Unsupported {
        /// Whose value.
        resource: String,
        /// The parameter.
        name: String,
        /// What it is and what to do.
        problem: String,
    },
    /// A type does not take a value.
    #[error(transparent)]
    Resource(#[from] crate::error::EngineError),
}

impl Catalog {
    /// Reads a catalog in whatever form it comes: Puppet's JSON, a JSON list of resources, or TOML.
    pub fn parse(bytes: &[u8], host: &str) -> Result<Self, CatalogError> {
        let catalog = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => puppet::parse_puppet_json(bytes),
            Some(b'[') if !bytes.trim_ascii_start().starts_with(b"[[") => {
                short_form::parse_json(bytes, host)
            }
            _ => short_form::parse_toml(bytes, host),
        }?;
        let count = catalog.entries.len();
        if count > MAX_RESOURCES {
            return Err(CatalogError::TooMany { count });
        }
        Ok(catalog)
    }

    /// The names of what contains an entry, outermost first, and its own.
    pub fn containment_path(&self, entry: usize) -> Vec<String> {
        let mut path = Vec::new();
        let mut next = Some(entry);
        // A container cannot lie in itself: parsing refuses it. The bound says so to the reader.
        while let Some(entry) = next.and_then(|entry| self.entries.get(entry)) {
            path.push(entry.path_name());
            next = entry.container.filter(|_| path.len() <= self.entries.len());
        }
        path.reverse();
        path
    }
}
