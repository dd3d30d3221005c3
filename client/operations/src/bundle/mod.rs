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

mod agent_files;
mod archive;
mod collect;
mod error;
mod install;
mod manifest;
mod open;
mod ruby_ddl;

pub use agent_files::check_agent_files;
pub use archive::BundleArchive;
pub use collect::{BundleSourceFiles, collect_bundle_files};
pub use error::{BundleError, BundleFileError};
pub use install::{
    InstallRecord, InstalledBundle, bundle_directory, changed_files, find_installed,
    install_bundle, remove_bundle,
};
pub use manifest::{BundleFile, BundleFileMode, BundleManifest, ManifestEntry, check_path};
pub use open::{BundleSigner, BundleSignerTrust, OpenBundle, PLUGIN_SIGN_TAG};
pub use ruby_ddl::{
    ConversionNote, ConvertedDdl, ConvertedDdlKind, RubyDdlError, RubyDdlProblem, convert_ruby_ddl,
};

use std::collections::BTreeMap;

use muster_wire::identity::SubjectName;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::{Millis, limits};

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
