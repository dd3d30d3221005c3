//! A compiled catalog in its stored form: named by its hash, without what differs between two compiles of the same inputs, and without secrets.
//!
//! Puppet's compiler puts a time and a random id into a catalog, paths of the checkout, the compiler's user as the owner of files, and the times of
//! directories. None of these is a difference for a node. Sensitive values are replaced by a keyed digest and stored in a separate part. A changed
//! password changes the address of the catalog, but the address cannot be used to guess passwords.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use muster_files::files::{FileAccessError, create_secret};
use muster_files::{SecretFileError, SecretOwner, read_secret};
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::{CatalogAddress, CatalogSecrets, named_file};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// The key of an environment's compilers, by which secrets are digested.
pub struct SecretKey(hmac::Key);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum SecretKeyError {
    #[error(transparent)]
    File(#[from] SecretFileError),
    #[error("{} has no key; it has 64 digits, 0-9 and a-f, as `openssl rand -hex 32` prints", .0.display())]
    Invalid(PathBuf),
    #[error("the random source of the system failed")]
    Random,
    #[error("cannot write the key for secrets of catalogs")]
    Write(#[from] FileAccessError),
}

impl SecretKey {
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Reads a file with 64 hexadecimal digits, which only the daemon's user can read.
    pub fn read(path: &Path) -> Result<Self, SecretKeyError> {
        let text = read_secret(path, SecretOwner::Daemon, MAX_KEY_FILE_BYTES)?;
        let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).map(Zeroizing::new);
        let bytes = bytes.ok().and_then(|bytes| bytes.as_slice().first_chunk().copied());
        let invalid = || SecretKeyError::Invalid(path.to_owned());
        (text.trim().len() == KEY_BYTES * 2)
            .then_some(bytes)
            .flatten()
            .map(|bytes| Self::new(&bytes))
            .ok_or_else(invalid)
    }

    /// Reads the file, or makes one with a new key.
    pub fn read_or_create(path: &Path) -> Result<Self, SecretKeyError> {
        match Self::read(path) {
            Err(SecretKeyError::File(error)) if error.is_missing() => {}
            read => return read,
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        SystemRandom::new().fill(&mut *key).map_err(|_| SecretKeyError::Random)?;
        let text = Zeroizing::new(format!("{}\n", HEXLOWER.encode(&*key)));
        create_secret(path, text.as_bytes())?;
        Ok(Self::new(&key))
    }

    fn digest(&self, value: &Value) -> String {
        HEXLOWER.encode(hmac::sign(&self.0, value.to_string().as_bytes()).as_ref())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

/// A catalog as it is stored, and its secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCatalog {
    address: CatalogAddress,
    /// Equal for catalogs that differ only in file names and line numbers of the manifests.
    effect: CatalogAddress,
    /// The catalog without its secrets.
    public: Map<String, Value>,
    secrets: CatalogSecrets,
    files: BTreeMap<ContentAddress, PathBuf>,
}

impl StoredCatalog {
    /// Makes the stored form of a catalog that was compiled from this checkout.
    pub fn of(mut catalog: Map<String, Value>, checkout: &Path, key: &SecretKey) -> Self {
        let prefix = format!("{}/", checkout.display());
        let mut secrets = CatalogSecrets::default();
        for resource in list_mut(catalog.get_mut("resources")) {
            let Some(resource) = resource.as_object_mut() else { continue };
            strip_prefix(resource, "file", &prefix);
            secrets.take_from(resource, &|value| key.digest(value));
        }
        let owned = titles_of_owned_sources(&catalog);
        let mut files = BTreeMap::new();
        for (title, metadata) in entries_mut(catalog.get_mut("metadata")) {
            settle_metadata(metadata, &prefix, owned.contains(title));
            files.extend(find_file(metadata));
        }
        for (title, sources) in entries_mut(catalog.get_mut("recursive_metadata")) {
            for (_, tree) in entries_mut(Some(sources)) {
                for metadata in list_mut(Some(tree)) {
                    settle_metadata(metadata, &prefix, owned.contains(title));
                    files.extend(find_file(metadata));
                }
            }
        }
        let address = CatalogAddress::of_catalog(&mut catalog);
        let effect = effect_of(&catalog);
        address.name_catalog(&mut catalog);
        Self { address, effect, public: catalog, secrets, files }
    }

    pub fn address(&self) -> CatalogAddress {
        self.address
    }

    /// Equal for catalogs with which a node would do the same.
    pub fn effect(&self) -> CatalogAddress {
        self.effect
    }

    /// The catalog without its secrets.
    pub fn public(&self) -> &Map<String, Value> {
        &self.public
    }

    /// The files that a node needs, and where each is in the checkout.
    pub fn files(&self) -> impl Iterator<Item = (ContentAddress, &Path)> {
        self.files.iter().map(|(address, path)| (*address, path.as_path()))
    }

    pub fn secrets(&self) -> &CatalogSecrets {
        &self.secrets
    }
}

/// The address that a catalog would have without file names and line numbers.
fn effect_of(catalog: &Map<String, Value>) -> CatalogAddress {
    let mut catalog = catalog.clone();
    for resource in list_mut(catalog.get_mut("resources")) {
        if let Some(resource) = resource.as_object_mut() {
            resource.remove("file");
            resource.remove("line");
        }
    }
    CatalogAddress::of_catalog(&mut catalog)
}

fn list_mut(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

fn entries_mut(value: Option<&mut Value>) -> impl Iterator<Item = (&String, &mut Value)> {
    value.and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut)
}

fn strip_prefix(map: &mut Map<String, Value>, key: &str, prefix: &str) {
    if let Some(Value::String(path)) = map.get_mut(key)
        && let Some(relative) = path.strip_prefix(prefix)
    {
        *path = relative.to_owned();
    }
}

/// The files that take owner, group and mode from their source.
fn titles_of_owned_sources(catalog: &Map<String, Value>) -> Vec<String> {
    let resources = catalog.get("resources").and_then(Value::as_array);
    let owned = resources.into_iter().flatten().filter(|resource| {
        let permissions = resource.pointer("/parameters/source_permissions");
        resource["type"] == "File" && permissions.is_some_and(|value| value != "ignore")
    });
    owned.filter_map(|resource| resource["title"].as_str().map(str::to_owned)).collect()
}

/// The content of a file, and its path in the checkout; `None` for directories and links.
fn find_file(metadata: &Value) -> Option<(ContentAddress, PathBuf)> {
    let address = named_file(metadata.as_object()?)?;
    let path = PathBuf::from(metadata.get("path")?.as_str()?);
    let below = metadata.get("relative_path").and_then(Value::as_str).filter(|path| *path != ".");
    Some((address, below.map_or(path.clone(), |below| path.join(below))))
}

fn settle_metadata(metadata: &mut Value, prefix: &str, takes_owner: bool) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    strip_prefix(metadata, "path", prefix);
    if !takes_owner {
        metadata.insert("owner".to_owned(), Value::Null);
        metadata.insert("group".to_owned(), Value::Null);
    }
    if metadata.get("type").is_some_and(|kind| kind == "directory") {
        metadata.remove("checksum");
    }
    if let Some(hash) = named_file(metadata) {
        // Where Puppet's agent asks a server for static content.
        metadata.insert("content_uri".to_owned(), format!("puppet:///sha256/{hash}").into());
    }
}
