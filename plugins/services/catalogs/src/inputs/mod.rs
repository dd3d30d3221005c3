//! What a compile read, each with a digest: equal digests make the same catalog, so a compile is needed only if one changed.
//!
//! - [`values`]: facts by path. `files`: code, data by key, templates and sources. The answers to queries are digested by who can ask them.

mod files;
pub mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use files::{CodeDirectory, CodeError};
pub use values::NodeValues;

/// How much of a value was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueRead {
    /// Whether it is there.
    Exists,
    /// Which names beside it are equal to its name if case is ignored.
    Named,
    /// Whether it is a map; its value if it is not.
    Kind,
    /// All of it.
    Value,
}

/// How much of a file or directory was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRead {
    /// Whether it is there.
    Exists,
    /// The names in the directory.
    Names,
    /// The names of all files below the directory.
    TreeNames,
    /// The contents of a file; of a directory, that it is one.
    File,
    /// The names, modes and contents of all files below the directory.
    Tree,
}

/// What a compiler says that it read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedInputs {
    /// Paths in `facts`, `trusted` and `server_facts`.
    pub values: Vec<(Vec<String>, ValueRead)>,
    /// Paths in the environment.
    pub files: Vec<(String, FileRead)>,
    /// Files of data, and the keys that were looked up in them.
    pub data: Vec<(String, String)>,
    pub queries: Vec<String>,
    /// What cannot be checked again, and where it was read: the catalog is not reproducible.
    pub externals: Vec<(String, String)>,
    /// Of `facts`, `trusted` and `server_facts`, those of which everything was read, and where.
    pub wholes: Vec<(String, String)>,
}

/// The SHA-256 of what was read, or of its absence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputDigest([u8; 32]);

impl InputDigest {
    /// The digest of bytes of this kind, so that, say, an absent file differs from an empty one.
    fn of(kind: &str, bytes: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update((kind.len() as u64).to_be_bytes());
        hash.update(kind);
        hash.update(bytes);
        Self(hash.finalize().into())
    }

    fn absent() -> Self {
        Self::of("absent", b"")
    }
}

impl fmt::Display for InputDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for InputDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One thing that a compile read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputName {
    Value(Vec<String>, ValueRead),
    File(String, FileRead),
    /// A key of a file of data.
    Data(String, String),
    /// The names of the files of code: a new one could define what was read from another.
    CodeNames,
}

impl fmt::Display for InputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(path, _) => f.write_str(&path.join(".")),
            Self::File(path, _) => f.write_str(path),
            Self::Data(path, key) => write!(f, "{key} in {path}"),
            Self::CodeNames => f.write_str("the names of the files of code"),
        }
    }
}

/// What a compile read, with digests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompileInputs(BTreeMap<InputName, InputDigest>);

impl CompileInputs {
    /// Digests what was recorded, of these values and this code.
    pub fn of(
        recorded: &RecordedInputs,
        values: &NodeValues<'_>,
        code: &CodeDirectory,
    ) -> Result<Self, CodeError> {
        let value_names =
            recorded.values.iter().map(|(path, read)| InputName::Value(path.clone(), *read));
        let file_names =
            recorded.files.iter().map(|(path, read)| InputName::File(path.clone(), *read));
        let data_names =
            recorded.data.iter().map(|(path, key)| InputName::Data(path.clone(), key.clone()));
        let names = value_names.chain(file_names).chain(data_names).chain([InputName::CodeNames]);
        let digests = names.map(|name| Ok((name.clone(), name.digest(values, code)?)));
        digests.collect::<Result<_, _>>().map(Self)
    }

    /// What differs now.
    pub fn changes(
        &self,
        values: &NodeValues<'_>,
        code: &CodeDirectory,
    ) -> Result<BTreeSet<InputName>, CodeError> {
        let mut changed = BTreeSet::new();
        for (name, digest) in &self.0 {
            if name.digest(values, code)? != *digest {
                changed.insert(name.clone());
            }
        }
        Ok(changed)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&InputName, &InputDigest)> {
        self.0.iter()
    }
}

impl InputName {
    fn digest(
        &self,
        values: &NodeValues<'_>,
        code: &CodeDirectory,
    ) -> Result<InputDigest, CodeError> {
        match self {
            Self::Value(path, read) => Ok(values.digest(path, *read)),
            Self::File(path, read) => code.digest(path, *read),
            Self::Data(path, key) => code.digest_key(path, key),
            Self::CodeNames => code.digest_names(),
        }
    }
}
