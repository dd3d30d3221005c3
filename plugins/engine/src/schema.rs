//! Schema of a type: its properties (read, compared and changed) and parameters (options of the operation).
//!
//! A schema is data. [`munge`](crate::munge) converts untyped input to [`ResourceValues`](crate::resource::ResourceValues) according to it.

use AttributeKind::{Bool, List, Text, Word};

/// Whether an attribute is part of the state or an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeRole {
    /// Compared with the machine and synced.
    Property,
    /// Used only while syncing.
    Parameter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeKind {
    Text,
    Word(&'static [&'static str]),
    /// One of these keywords, or any other string (a package version, a link target); only the keywords are documented.
    WordOr(&'static [&'static str]),
    /// An integer, from a number or its decimal string.
    Int,
    /// `true`/`false`, also the strings `yes`/`no`.
    Bool,
    /// An absolute path, stored without duplicate or trailing slashes.
    AbsolutePath,
    /// Permission bits: octal, stored as a string of four digits (`0644`), or symbolic, stored unchanged (`u+rw,go-w`).
    Mode,
    /// List of strings; a single string becomes a list of one.
    List,
    /// List of command lines; a nested list is program and arguments of one command, stored as a quoted line.
    Commands,
    /// List of options for a tool; an object `{"--prefix": "/opt"}` becomes `--prefix=/opt`.
    Options,
    /// Seconds: an integer or fraction, stored as a string.
    Seconds,
    /// Any value; validated by a type that is not built in.
    Data,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeSchema {
    pub name: &'static str,
    pub role: AttributeRole,
    pub kind: AttributeKind,
    /// Default value, in command-line syntax.
    pub default: Option<&'static str>,
    /// The value never appears in events, logs or errors.
    pub sensitive: bool,
    /// On the command line, a text is split into the items of the list at commas: names and numbers, as opposed to texts that may contain
    /// commas.
    pub comma_separated: bool,
    /// Documentation: one sentence.
    pub doc: &'static str,
}

impl AttributeSchema {
    #[must_use]
    pub const fn with_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    #[must_use]
    pub const fn with_hidden_value(mut self) -> Self {
        self.sensitive = true;
        self
    }

    /// Marks a list whose items contain no commas.
    #[must_use]
    pub const fn split_at_commas(mut self) -> Self {
        self.comma_separated = true;
        self
    }
}

/// A property without default.
pub const fn property(
    name: &'static str,
    kind: AttributeKind,
    doc: &'static str,
) -> AttributeSchema {
    let role = AttributeRole::Property;
    let (default, sensitive, comma_separated) = (None, false, false);
    AttributeSchema { name, role, kind, default, sensitive, comma_separated, doc }
}

/// A parameter without default.
pub const fn parameter(
    name: &'static str,
    kind: AttributeKind,
    doc: &'static str,
) -> AttributeSchema {
    AttributeSchema { role: AttributeRole::Parameter, ..property(name, kind, doc) }
}

/// A boolean parameter that is false by default.
pub const fn flag_parameter(name: &'static str, doc: &'static str) -> AttributeSchema {
    parameter(name, Bool, doc).with_default("false")
}

/// The property `ensure` of a resource that exists (the default) or not.
pub const fn presence_property(doc: &'static str) -> AttributeSchema {
    property("ensure", Word(&["present", "absent"]), doc).with_default("present")
}

/// The parameter `provider` of a type with one provider.
pub const fn provider_parameter(provider: &'static [&'static str; 1]) -> AttributeSchema {
    let [name] = provider;
    let kind = Word(provider);
    parameter("provider", kind, "The provider; there is only one.").with_default(name)
}

/// The order of properties is the sync order, `ensure` first.
#[derive(Debug, Clone, Copy)]
pub struct TypeSchema {
    /// Lower-case name of the type.
    pub type_name: &'static str,
    /// Documentation: one or two sentences.
    pub doc: &'static str,
    /// The attribute that defaults to the title: `name`, `path`, `command`.
    pub namevar: &'static str,
    /// Attributes, excluding the metaparameters common to all types.
    pub attributes: &'static [AttributeSchema],
}

impl TypeSchema {
    /// Looks up an attribute, including metaparameters.
    pub fn find_attribute(&self, name: &str) -> Option<&'static AttributeSchema> {
        self.attributes.iter().chain(METAPARAMETERS).find(|attribute| attribute.name == name)
    }

    /// The properties in sync order.
    pub fn properties(&self) -> impl Iterator<Item = &'static AttributeSchema> {
        self.attributes.iter().filter(|attribute| attribute.role == AttributeRole::Property)
    }
}

/// Keeps a text of a type that was loaded for the lifetime of the process, because schemas are `'static`.
pub(crate) fn leak_text(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

/// Attributes accepted by every type.
pub const METAPARAMETERS: &[AttributeSchema] = &[
    parameter("noop", Bool, "Whether to report pending changes without making them."),
    parameter("tag", List, "Tags, by which a run can select the resource.").split_at_commas(),
    parameter("alias", List, "Other names of the resource.").split_at_commas(),
    parameter("loglevel", Word(LOG_LEVELS), "Log level of changes."),
    parameter("audit", List, "Properties to audit without changing them.").split_at_commas(),
    parameter(
        "schedule",
        Text,
        "Name of the schedule that restricts when the resource is applied.",
    ),
    parameter("before", List, "Resources that are applied after this one."),
    parameter("require", List, "Resources that are applied before this one."),
    parameter("notify", List, "Resources that are refreshed when this one changes."),
    parameter("subscribe", List, "Resources that refresh this one when they change."),
];

pub const RELATION_METAPARAMETERS: &[&str] = &["before", "require", "notify", "subscribe"];

const LOG_LEVELS: &[&str] =
    &["debug", "info", "notice", "warning", "err", "alert", "emerg", "crit", "verbose"];
