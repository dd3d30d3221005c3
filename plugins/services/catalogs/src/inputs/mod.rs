//! What a compile read, each with a digest: equal digests make the same catalog, so a compile is needed only if one changed.
//!
//! - [`values`]: facts by path. `files`: code, data by key, templates and sources. Answers to queries: see [`QueryDigests`].

mod files;
pub mod values;

use std::collections::BTreeMap;
use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use files::{CodeDirectory, CodeError};
pub use values::NodeValues;
use values::digest_value;

/// How much of a value was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// The first half of the SHA-256 of what was read, or of its absence. As text: 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InputDigest([u8; 16]);

impl InputDigest {
    /// The digest of bytes of this kind, so that, say, an absent file differs from an empty one.
    fn of(kind: &str, bytes: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update((kind.len() as u64).to_be_bytes());
        hash.update(kind);
        hash.update(bytes);
        Self(hash.finalize().first_chunk().copied().unwrap_or_default())
    }

    /// The digest of an answer to a query: its status, and what of its document matters.
    pub fn of_answer(status: u16, document: &Value) -> Self {
        digest_value(&Value::Array(vec![status.into(), document.clone()]))
    }

    fn absent() -> Self {
        Self::of("absent", b"")
    }
}

impl TryFrom<String> for InputDigest {
    type Error = data_encoding::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = HEXLOWER.decode(text.as_bytes())?;
        let length = bytes.len();
        bytes.try_into().map(Self).map_err(|_| data_encoding::DecodeError {
            position: length,
            kind: data_encoding::DecodeKind::Length,
        })
    }
}

impl From<InputDigest> for String {
    fn from(digest: InputDigest) -> Self {
        HEXLOWER.encode(&digest.0)
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

/// What a compile read of the code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeInput {
    File(String, FileRead),
    /// A key of a file of data.
    Data(String, String),
    /// The names of the files of code: a new one could define what was read from another.
    Names,
    /// Everything: the compiler records no files.
    All,
}

/// One thing that a compile read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputName {
    Value(Vec<String>, ValueRead),
    Code(CodeInput),
    /// A query of the directory.
    Query(String),
}

impl fmt::Display for InputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(path, _) => f.write_str(&path.join(".")),
            Self::Code(CodeInput::File(path, _)) => f.write_str(path),
            Self::Code(CodeInput::Data(path, key)) => write!(f, "{key} in {path}"),
            Self::Code(CodeInput::Names) => f.write_str("the names of the files of code"),
            Self::Code(CodeInput::All) => f.write_str("the code"),
            Self::Query(query) => write!(f, "the answer to {query}"),
        }
    }
}

/// Where the answers to queries are.
pub trait QueryDigests: fmt::Debug {
    /// The digest of the answer now.
    fn digest(&self, query: &str) -> InputDigest;
}

/// What inputs are read from.
#[derive(Debug, Clone, Copy)]
pub struct InputSources<'a> {
    pub values: NodeValues<'a>,
    pub code: &'a CodeDirectory,
    pub queries: &'a dyn QueryDigests,
}

/// What a compile read, with digests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompileInputs(BTreeMap<InputName, InputDigest>);

impl CompileInputs {
    /// Digests what was recorded. Of a compiler that does not record, all facts and the code are inputs.
    pub fn of(
        recorded: Option<&RecordedInputs>,
        sources: &InputSources<'_>,
    ) -> Result<Self, CodeError> {
        let names = recorded.map_or_else(
            || {
                let roots = ["facts", "trusted", "server_facts"].map(|root| vec![root.to_owned()]);
                let values = roots.map(|root| InputName::Value(root, ValueRead::Value));
                values.into_iter().chain([InputName::Code(CodeInput::All)]).collect()
            },
            RecordedInputs::names,
        );
        let digests = names.into_iter().map(|name| {
            let digest = name.digest(sources)?;
            Ok((name, digest))
        });
        digests.collect::<Result<_, _>>().map(Self)
    }

    /// The inputs of a compile that failed: what it read until then, and all of the code, because a file that cannot be parsed is not recorded.
    pub fn of_failure(
        recorded: Option<&RecordedInputs>,
        sources: &InputSources<'_>,
    ) -> Result<Self, CodeError> {
        let mut inputs = Self::of(recorded, sources)?;
        let code = InputName::Code(CodeInput::All);
        let digest = code.digest(sources)?;
        inputs.0.insert(code, digest);
        Ok(inputs)
    }

    /// What differs now.
    pub fn changes(&self, sources: &InputSources<'_>) -> Result<Vec<&InputName>, CodeError> {
        let mut changed = Vec::new();
        for (name, digest) in &self.0 {
            if name.digest(sources)? != *digest {
                changed.push(name);
            }
        }
        Ok(changed)
    }

    /// The queries whose answers were read.
    pub fn queries(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|name| match name {
            InputName::Query(query) => Some(query.as_str()),
            InputName::Value(_, _) | InputName::Code(_) => None,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&InputName, &InputDigest)> {
        self.0.iter()
    }
}

impl FromIterator<(InputName, InputDigest)> for CompileInputs {
    fn from_iter<T: IntoIterator<Item = (InputName, InputDigest)>>(inputs: T) -> Self {
        Self(inputs.into_iter().collect())
    }
}

impl RecordedInputs {
    fn names(&self) -> Vec<InputName> {
        let values = self.values.iter().map(|(path, read)| InputName::Value(path.clone(), *read));
        let queries = self.queries.iter().map(|query| InputName::Query(query.clone()));
        let files = self.files.iter().map(|(path, read)| CodeInput::File(path.clone(), *read));
        let data = self.data.iter().map(|(path, key)| CodeInput::Data(path.clone(), key.clone()));
        let code = files.chain(data).chain([CodeInput::Names]).map(InputName::Code);
        values.chain(queries).chain(code).collect()
    }
}

impl InputName {
    fn digest(&self, sources: &InputSources<'_>) -> Result<InputDigest, CodeError> {
        match self {
            Self::Value(path, read) => Ok(sources.values.digest(path, *read)),
            Self::Code(input) => sources.code.digest_input(input),
            Self::Query(query) => Ok(sources.queries.digest(query)),
        }
    }
}
