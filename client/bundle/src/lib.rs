//! External agent bundles: one signed file per agent. The format takes and returns bytes; [`collect_bundle_files`], [`install_bundle`] and
//! [`remove_bundle`] work on directories.
//!
//! ```text
//! a tar of   bundle.json   the manifest, signed as muster.bundle.v1 (see [`muster_wire::sign`]): signer's token, signature, digests
//!            account.jwt   the account's token, which the operator signed
//!            files/...     the agent's files, in the order of their paths
//! ```
//!
//! The encoding is canonical: [`BundleArchive::decode`] accepts only the exact bytes that [`BundleArchive::encode`] writes. This excludes
//! links, devices, duplicate names, tar extensions, and unsigned bytes.
//!
//! Read in this order: [`pack_bundle`]; [`BundleArchive::decode`], which verifies nothing; [`BundleArchive::verify_contents`], which verifies
//! the signer and every file.

#![warn(missing_docs)]

mod agent_files;
mod archive;
mod collect;
mod error;
mod install;
mod open;
mod ruby_ddl;

pub use agent_files::check_agent_files;
pub use archive::BundleArchive;
pub use collect::{BundleSourceFiles, collect_bundle_files};
pub use error::BundleFileError;
pub use install::{
    InstallRecord, InstalledBundle, bundle_directory, changed_files, find_installed,
    install_bundle, remove_bundle,
};
pub use open::{BundleSigner, BundleSignerTrust, OpenBundle, PLUGIN_SIGN_TAG};
pub use ruby_ddl::{
    ConversionNote, ConvertedDdl, ConvertedDdlKind, RubyDdlError, RubyDdlProblem, convert_ruby_ddl,
};

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::{EnvelopeKind, EnvelopeSignError, MessageRefusal, Signer, sign_envelope};
use muster_wire::token::{KeyError, PublicKey, TokenError};
use muster_wire::{Millis, limits};

/// The content of a bundle. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleManifest {
    /// The agent.
    pub name: SubjectName,
    /// Its semantic version.
    pub version: semver::Version,
    /// The signer, as named in its token.
    pub signer: Identity,
    /// Signing time, by the signer's clock.
    pub packed_at: Millis,
    /// Its files by path.
    pub files: BTreeMap<String, ManifestEntry>,
}

/// A file in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestEntry {
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in lower-case hexadecimal.
    pub sha256: String,
    /// The file mode.
    pub mode: BundleFileMode,
}

/// The two file modes in bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BundleFileMode {
    /// Readable by all.
    #[serde(rename = "0644")]
    Data,
    /// Executable by all.
    #[serde(rename = "0755")]
    Program,
}

impl BundleFileMode {
    /// The Unix permission bits.
    pub fn permission_bits(self) -> u32 {
        match self {
            Self::Data => 0o644,
            Self::Program => 0o755,
        }
    }
}

/// A file's mode and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleFile<'a> {
    /// Its mode.
    pub mode: BundleFileMode,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl BundleFile<'_> {
    /// The manifest entry of this file.
    pub fn manifest_entry(&self) -> ManifestEntry {
        ManifestEntry {
            bytes: self.bytes.len() as u64,
            sha256: data_encoding::HEXLOWER.encode(&Sha256::digest(self.bytes)),
            mode: self.mode,
        }
    }
}

/// Errors of packing and verifying bundles.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The bundle exceeds the size limit.
    #[error("the bundle has {0} bytes; at most {max} are allowed", max = limits::MAX_BUNDLE_BYTES)]
    TooLarge(usize),
    /// The bundle has no files or too many.
    #[error("the bundle has {0} files; 1 to {max} are allowed", max = limits::MAX_BUNDLE_FILES)]
    Files(usize),
    /// Not a tar.
    #[error("not a bundle: cannot read it as a tar")]
    Tar(#[from] io::Error),
    /// A tar without the layout of a bundle.
    #[error("not a bundle: {0}")]
    Shape(&'static str),
    /// A path that leaves the agent's directory, or belongs to another agent.
    #[error("the path {path:?} is not allowed: {reason}")]
    Path {
        /// The path in printable form.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// The signature or the signer's token failed verification.
    #[error("the bundle's signature is refused")]
    Refused(#[from] MessageRefusal),
    /// The bundle's account token, or the locally known one, failed verification.
    #[error("the bundle's account token is refused")]
    Account(#[from] TokenError),
    /// A key is invalid.
    #[error("the signer's key is invalid")]
    Key(#[from] KeyError),
    /// Signed by a key other than the expected one.
    #[error("the bundle is signed with the key {found}, not with {expected}")]
    Foreign {
        /// The expected key.
        expected: PublicKey,
        /// The key in the signer's token.
        found: PublicKey,
    },
    /// The signer lacks permission.
    #[error(
        "{0} has no permission to sign bundles: the token lacks the tag {PLUGIN_SIGN_TAG} (`rpc org add user --sign-plugins`)"
    )]
    MayNotSign(Identity),
    /// The manifest cannot be parsed.
    #[error("cannot parse the manifest")]
    Manifest(#[from] serde_json::Error),
    /// The signer in the manifest differs from the signer in the token.
    #[error("the manifest specifies the signer {claimed}, but {signer} signed it")]
    WrongSigner {
        /// The signer in the token.
        signer: Identity,
        /// The signer in the manifest.
        claimed: Identity,
    },
    /// The file is missing, unsigned, or differs from the signed one.
    #[error("the file {0:?} differs from the signed one")]
    File(String),
    /// The manifest cannot be signed.
    #[error("cannot sign the manifest")]
    Sign(#[from] EnvelopeSignError),
}

impl BundleManifest {
    /// Checks that every path is valid for this agent, and that the DDL is present.
    pub fn check_files(&self) -> Result<(), BundleError> {
        if self.files.is_empty() || self.files.len() > limits::MAX_BUNDLE_FILES {
            return Err(BundleError::Files(self.files.len()));
        }
        for path in self.files.keys() {
            check_path(&self.name, path)?;
            let mut ancestor = path.as_str();
            while let Some((directory, _)) = ancestor.rsplit_once('/') {
                if self.files.contains_key(directory) {
                    return Err(path_error(path, "its parent directory is also a file"));
                }
                ancestor = directory;
            }
        }
        if !self.files.contains_key(&self.ddl_path()) {
            return Err(BundleError::Shape("the agent's DDL is missing"));
        }
        Ok(())
    }

    /// The path of the agent's DDL.
    pub fn ddl_path(&self) -> String {
        format!("{}.json", self.name)
    }
}

fn path_error(path: &str, reason: &'static str) -> BundleError {
    let path = path.chars().take(120).collect();
    BundleError::Path { path, reason }
}

/// Checks that a path is below the agent's own directory, so that no file can belong to another agent.
pub fn check_path(agent: &SubjectName, path: &str) -> Result<(), BundleError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+/".contains(&byte);
    let mut components = path.split('/');
    let reason = if path.len() > limits::MAX_BUNDLE_PATH_BYTES {
        "the path is too long"
    } else if components.clone().count() > 3 {
        "it has more than two directories"
    } else if components.any(|component| component.is_empty() || component.starts_with('.')) {
        "a component is empty or begins with a dot"
    } else if !path.bytes().all(is_allowed) {
        "only letters, digits and ._-+ are allowed"
    } else if path.strip_suffix(".json").is_some_and(|name| name != agent.as_str()) {
        "a node would read it as the DDL of another agent"
    } else {
        return Ok(());
    };
    Err(path_error(path, reason))
}

/// Packs and signs an agent's files. The caller validates their content beforehand.
pub fn pack_bundle(
    name: SubjectName,
    version: semver::Version,
    files: &BTreeMap<&str, BundleFile<'_>>,
    signer: &Signer,
    account_token: &str,
    now: Millis,
) -> Result<Vec<u8>, BundleError> {
    let to_entry =
        |(path, file): (&&str, &BundleFile<'_>)| ((*path).to_owned(), file.manifest_entry());
    let manifest = BundleManifest {
        name,
        version,
        signer: signer.identity().clone(),
        packed_at: now,
        files: files.iter().map(to_entry).collect(),
    };
    manifest.check_files()?;
    let envelope = sign_envelope(EnvelopeKind::Bundle, &manifest, signer)?;
    let files = files.clone();
    let bytes = BundleArchive { envelope: &envelope, account: account_token, files }.encode()?;
    if bytes.len() > limits::MAX_BUNDLE_BYTES {
        return Err(BundleError::TooLarge(bytes.len()));
    }
    Ok(bytes)
}
