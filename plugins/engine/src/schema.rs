//! What a type accepts: its properties (found on the machine, compared, changed) and parameters (how to go about it).
//!
//! A schema turns untyped words (command line, JSON, a catalog) into [`Values`](crate::resource::Values), or says which
//! one is wrong and why, before anything is changed.

/// Whether a name describes the machine or the way to get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Compared with the machine, and synced.
    Property,
    /// Only used while syncing.
    Parameter,
}

/// The kind of a value, and how it is munged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or any other text (a package version, a file's content checksum).
    WordOr(&'static [&'static str]),
    /// Whole number, from a number or its decimal text.
    Int,
    /// `true`/`false`, also as `yes`/`no` texts.
    Bool,
    /// An absolute path.
    Path,
    /// Octal permission bits, `0644`; kept as text of at least three digits.
    Mode,
    /// List of texts; one text counts as a list of one.
    List,
    /// Seconds: a whole or fractional number, kept as text.
    Seconds,
}

/// One name that a type accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute {
    /// The name, as in Puppet.
    pub name: &'static str,
    /// Property or parameter.
    pub role: Role,
    /// What values it takes.
    pub kind: Kind,
    /// Taken when nothing is said; in the words of the command line.
    pub default: Option<&'static str>,
    /// The value never appears in events, logs or errors.
    pub sensitive: bool,
    /// One sentence.
    pub doc: &'static str,
}

/// A type's whole vocabulary. The order of properties is the order in which they are synced, `ensure` first.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Lower-case name of the type.
    pub type_name: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// What it accepts, besides the metaparameters that every type has.
    pub attributes: &'static [Attribute],
}

impl Schema {
    /// Looks a name up.
    pub fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The properties in the order in which they are synced.
    pub fn properties(&self) -> impl Iterator<Item = &'static Attribute> {
        self.attributes.iter().filter(|attribute| attribute.role == Role::Property)
    }
}
