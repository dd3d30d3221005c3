//! What a type accepts: its properties (found on the machine, compared, changed) and parameters (how to go about it).
//!
//! A schema is data. [`munge`](crate::munge) turns untyped words into [`Values`](crate::resource::ResourceValues) by it.

/// Whether a name describes the machine or the way to get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeRole {
    /// Compared with the machine, and synced.
    Property,
    /// Only used while syncing.
    Parameter,
}

/// The kind of a value, and how it is munged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeKind {
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or any other text (a package version, a link's target); only the words are documented.
    WordOr(&'static [&'static str]),
    /// Whole number, from a number or its decimal text.
    Int,
    /// `true`/`false`, also as `yes`/`no` texts.
    Bool,
    /// An absolute path, kept without doubled or trailing slashes.
    Path,
    /// Permission bits: octal, kept as text of four digits (`0644`), or symbolic, kept as it is (`u+rw,go-w`).
    Mode,
    /// List of texts; one text counts as a list of one.
    List,
    /// List of command lines; a list in it is one command's program and arguments, kept as a line with quotes.
    Commands,
    /// List of options for a tool; an object `{"--prefix": "/opt"}` in it is `--prefix=/opt`.
    Options,
    /// Seconds: a whole or fractional number, kept as text.
    Seconds,
    /// Anything: a type that is not the engine's own judges it.
    Data,
}

/// One name that a type accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeSchema {
    /// The name, as in Puppet.
    pub name: &'static str,
    /// Property or parameter.
    pub role: AttributeRole,
    /// What values it takes.
    pub kind: AttributeKind,
    /// Taken when nothing is said; in the words of the command line.
    pub default: Option<&'static str>,
    /// The value never appears in events, logs or errors.
    pub sensitive: bool,
    /// One sentence.
    pub doc: &'static str,
}

impl AttributeSchema {
    /// A property without default.
    pub const fn property(name: &'static str, kind: AttributeKind, doc: &'static str) -> Self {
        Self {
            name,
            role: AttributeRole::Property,
            kind,
            default: None,
            sensitive: false,
            doc,
        }
    }

    /// A parameter without default.
    pub const fn parameter(name: &'static str, kind: AttributeKind, doc: &'static str) -> Self {
        Self {
            name,
            role: AttributeRole::Parameter,
            kind,
            default: None,
            sensitive: false,
            doc,
        }
    }

    /// The same with a default.
    #[must_use]
    pub const fn with_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// The same, never shown.
    #[must_use]
    pub const fn with_hidden_value(mut self) -> Self {
        self.sensitive = true;
        self
    }
}

/// A type's whole vocabulary. The order of properties is the order in which they are synced, `ensure` first.
#[derive(Debug, Clone, Copy)]
pub struct TypeSchema {
    /// Lower-case name of the type.
    pub type_name: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// The attribute that the title stands for when it is not given: `name`, `path`, `command`.
    pub namevar: &'static str,
    /// What it accepts, besides the metaparameters that every type has.
    pub attributes: &'static [AttributeSchema],
}

impl TypeSchema {
    /// Looks a name up, among the metaparameters too.
    pub fn find_attribute(&self, name: &str) -> Option<&'static AttributeSchema> {
        self.attributes
            .iter()
            .chain(METAPARAMETERS)
            .find(|attribute| attribute.name == name)
    }

    /// The properties in the order in which they are synced.
    pub fn properties(&self) -> impl Iterator<Item = &'static AttributeSchema> {
        self.attributes
            .iter()
            .filter(|attribute| attribute.role == AttributeRole::Property)
    }
}

/// What every type accepts.
pub const METAPARAMETERS: &[AttributeSchema] = &[
    AttributeSchema::parameter(
        "noop",
        AttributeKind::Bool,
        "Whether to stop after the plan.",
    ),
    AttributeSchema::parameter(
        "tag",
        AttributeKind::List,
        "Words by which the resource can be selected.",
    ),
    AttributeSchema::parameter("alias", AttributeKind::List, "Other names of the resource."),
    AttributeSchema::parameter(
        "loglevel",
        AttributeKind::Word(LOG_LEVELS),
        "How loud a change is.",
    ),
    AttributeSchema::parameter(
        "audit",
        AttributeKind::List,
        "Properties that are recorded without being changed.",
    ),
    AttributeSchema::parameter(
        "schedule",
        AttributeKind::Text,
        "When the resource may be changed.",
    ),
    AttributeSchema::parameter(
        "before",
        AttributeKind::List,
        "Resources that come after this one.",
    ),
    AttributeSchema::parameter(
        "require",
        AttributeKind::List,
        "Resources that come before this one.",
    ),
    AttributeSchema::parameter(
        "notify",
        AttributeKind::List,
        "Resources that are refreshed by a change of this one.",
    ),
    AttributeSchema::parameter(
        "subscribe",
        AttributeKind::List,
        "Resources whose change refreshes this one.",
    ),
];

/// The metaparameters that only mean something among other resources.
pub const RELATION_METAPARAMETERS: &[&str] = &["before", "require", "notify", "subscribe"];

const LOG_LEVELS: &[&str] = &[
    "debug", "info", "notice", "warning", "err", "alert", "emerg", "crit", "verbose",
];
