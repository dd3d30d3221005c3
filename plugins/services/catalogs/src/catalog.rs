//! A catalog in its stored form: named by its hash, without what differs between two compiles of the same inputs, and without secrets.
//!
//! Puppet's compiler puts a time and a random id into a catalog, paths of the checkout, the compiler's user as the owner of files, and the times of
//! directories. None of these is a difference for a node. Sensitive values are replaced by a keyed digest and stored in a separate part. A changed
//! password changes the address of the catalog, but the address cannot be used to guess passwords.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use data_encoding::HEXLOWER;
use ring::hmac;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// What replaces a sensitive value, with its digest in `digest`.
const SECRET_TYPE: &str = "muster::Secret";
/// Puppet's mark of a value of a type that JSON lacks.
const TYPE_KEY: &str = "__ptype";
/// Digits of the address that are a catalog's version.
const VERSION_DIGITS: usize = 12;

/// The SHA-256 of a catalog's stored bytes without version and id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogAddress([u8; 32]);

impl fmt::Display for CatalogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for CatalogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key of an environment's compilers, by which secrets are digested.
pub struct SecretKey(hmac::Key);

impl SecretKey {
    pub fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
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

/// The sensitive values of a catalog, by digest. Not shown by `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CatalogSecrets(BTreeMap<String, Value>);

impl CatalogSecrets {
    /// How many different values there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for CatalogSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogSecrets({} values)", self.len())
    }
}

/// A catalog as it is stored, and its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCatalog {
    address: CatalogAddress,
    /// Equal for catalogs that differ only in file names and line numbers of the manifests.
    effect: CatalogAddress,
    public: Vec<u8>,
    secrets: CatalogSecrets,
}

/// A stored catalog that is not what it is named.
#[derive(Debug, thiserror::Error)]
pub enum StoredCatalogError {
    #[error("cannot parse the catalog")]
    Invalid(#[from] serde_json::Error),
    #[error("the catalog has the address {found}, not {expected}")]
    Address { expected: CatalogAddress, found: CatalogAddress },
    #[error("the secret with the digest {0} is missing")]
    Secret(String),
}

impl StoredCatalog {
    /// Makes the stored form of a catalog that was compiled from this checkout.
    pub fn of(mut catalog: Map<String, Value>, checkout: &Path, key: &SecretKey) -> Self {
        let prefix = format!("{}/", checkout.display());
        let mut secrets = CatalogSecrets::default();
        for resource in list_mut(catalog.get_mut("resources")) {
            let Some(resource) = resource.as_object_mut() else { continue };
            strip_prefix(resource, "file", &prefix);
            take_secrets(resource, key, &mut secrets);
        }
        let owned = titles_of_owned_sources(&catalog);
        for (title, metadata) in entries_mut(catalog.get_mut("metadata")) {
            settle_metadata(metadata, &prefix, owned.contains(title));
        }
        for (title, sources) in entries_mut(catalog.get_mut("recursive_metadata")) {
            for (_, files) in entries_mut(Some(sources)) {
                for metadata in list_mut(Some(files)) {
                    settle_metadata(metadata, &prefix, owned.contains(title));
                }
            }
        }
        let address = address_of(&mut catalog);
        let mut without_lines = catalog.clone();
        for resource in list_mut(without_lines.get_mut("resources")) {
            if let Some(resource) = resource.as_object_mut() {
                resource.remove("file");
                resource.remove("line");
            }
        }
        let effect = address_of(&mut without_lines);
        name(&mut catalog, address);
        Self { address, effect, public: Value::Object(catalog).to_string().into_bytes(), secrets }
    }

    pub fn address(&self) -> CatalogAddress {
        self.address
    }

    /// Whether a node would do the same with this catalog.
    pub fn has_effect_of(&self, other: &Self) -> bool {
        self.effect == other.effect
    }

    /// The bytes that everybody may see.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    pub fn secrets(&self) -> &CatalogSecrets {
        &self.secrets
    }
}

/// Reads the public part under its address, and puts the secrets back.
pub fn open_catalog(
    address: CatalogAddress,
    public: &[u8],
    secrets: &CatalogSecrets,
) -> Result<Map<String, Value>, StoredCatalogError> {
    let mut catalog: Map<String, Value> = serde_json::from_slice(public)?;
    let found = address_of(&mut catalog);
    if found != address {
        return Err(StoredCatalogError::Address { expected: address, found });
    }
    name(&mut catalog, address);
    for resource in list_mut(catalog.get_mut("resources")) {
        if let Some(parameters) = resource.get_mut("parameters") {
            restore_secrets(parameters, secrets)?;
        }
    }
    Ok(catalog)
}

/// The address of a catalog; removes its version and id.
fn address_of(catalog: &mut Map<String, Value>) -> CatalogAddress {
    catalog.remove("version");
    catalog.remove("catalog_uuid");
    let value = Value::Object(std::mem::take(catalog));
    let address = CatalogAddress(Sha256::digest(value.to_string()).into());
    if let Value::Object(map) = value {
        *catalog = map;
    }
    address
}

/// Sets the version and the id of a catalog from its address, so that reports name it.
fn name(catalog: &mut Map<String, Value>, address: CatalogAddress) {
    let digits = address.to_string();
    let version: String = digits.chars().take(VERSION_DIGITS).collect();
    catalog.insert("version".to_owned(), version.into());
    let [start, ..] = address.0.as_chunks::<16>().0 else { return };
    let id = uuid::Builder::from_custom_bytes(*start).into_uuid();
    catalog.insert("catalog_uuid".to_owned(), id.to_string().into());
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
}

/// Replaces the sensitive parameters, and sensitive values inside others.
fn take_secrets(resource: &mut Map<String, Value>, key: &SecretKey, secrets: &mut CatalogSecrets) {
    let listed = resource.get("sensitive_parameters").and_then(Value::as_array).cloned();
    let Some(parameters) = resource.get_mut("parameters").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, value) in parameters {
        if listed.iter().flatten().any(|listed| listed == name) {
            *value = secrets.keep(value.take(), key);
        } else {
            take_nested(value, key, secrets);
        }
    }
}

fn take_nested(value: &mut Value, key: &SecretKey, secrets: &mut CatalogSecrets) {
    match value {
        Value::Object(map) if map.get(TYPE_KEY).is_some_and(|kind| kind == "Sensitive") => {
            *value = secrets.keep(value.take(), key);
        }
        Value::Object(map) => map.values_mut().for_each(|value| take_nested(value, key, secrets)),
        Value::Array(items) => {
            for value in items {
                take_nested(value, key, secrets);
            }
        }
        _ => {}
    }
}

impl CatalogSecrets {
    fn keep(&mut self, value: Value, key: &SecretKey) -> Value {
        let digest = key.digest(&value);
        self.0.insert(digest.clone(), value);
        json!({TYPE_KEY: SECRET_TYPE, "digest": digest})
    }
}

fn restore_secrets(value: &mut Value, secrets: &CatalogSecrets) -> Result<(), StoredCatalogError> {
    match value {
        Value::Object(map) if map.get(TYPE_KEY).is_some_and(|kind| kind == SECRET_TYPE) => {
            let digest = map.get("digest").and_then(Value::as_str).unwrap_or_default();
            let secret = secrets.0.get(digest);
            *value =
                secret.cloned().ok_or_else(|| StoredCatalogError::Secret(digest.to_owned()))?;
            Ok(())
        }
        Value::Object(map) => {
            map.values_mut().try_for_each(|value| restore_secrets(value, secrets))
        }
        Value::Array(items) => {
            items.iter_mut().try_for_each(|value| restore_secrets(value, secrets))
        }
        _ => Ok(()),
    }
}
