//! A catalog as its compiler signs and stores it, and what a node checks before it applies one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CatalogAddress, CatalogSecrets, MissingSecret};
use crate::Millis;
use crate::compressed::{CompressedJsonError, compress_json, decompress_json};
use crate::encrypted_inputs::{EncryptedInputs, InputEncryptionError, InputEncryptor};
use crate::identity::Identity;
use crate::limits::MAX_CATALOG_CONTENT_BYTES;
use crate::sign::{
    Envelope, EnvelopeKind, EnvelopeSignError, MessageRefusal, Signer, sign_envelope,
};
use crate::token::{AccountTrust, KeyPair, PublicKey, ServiceRight, TokenCache, UserRole};

/// The name of the one encrypted input that has all secrets of a catalog.
const SECRETS_INPUT: &str = "secrets";

/// What a compiler says about a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogStatement {
    /// The name in the compiler's token, repeated here because the body is signed.
    pub compiler: Identity,
    /// The node that the catalog is for.
    pub node: Identity,
    /// The environment.
    pub environment: String,
    /// The commit of the code, or the name that the compiler's configuration gives it.
    pub code: String,
    /// The catalog.
    pub address: CatalogAddress,
    /// When it was compiled, by the compiler's clock.
    pub compiled_at: Millis,
}

/// The body of a signed catalog: a statement with the catalog itself. Under `catalog.NODE.ADDRESS` the catalog is always the same; a later compile with the same
/// result replaces the statement, and encrypts the secrets for the key that the node has then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledCatalog {
    /// What the compiler says.
    #[serde(flatten)]
    pub statement: CatalogStatement,
    /// The stored form, compressed.
    catalog: String,
    /// The secrets, encrypted for the node; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secrets: Option<EncryptedInputs>,
}

/// A catalog whose compiler and address are verified, with its secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCatalog {
    /// What the compiler says.
    pub statement: CatalogStatement,
    /// The catalog, ready to be applied.
    pub catalog: Map<String, Value>,
}

/// Why a catalog is not accepted, or cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum CatalogRefusal {
    /// The envelope or the token of its sender failed verification.
    #[error("the signer of the catalog is not accepted")]
    Refused(#[from] MessageRefusal),
    /// A service signed it that is no compiler.
    #[error("{0} signed the catalog without the right to compile")]
    NotACompiler(Identity),
    /// The token of its compiler is for other environments.
    #[error("{compiler} signed the catalog and may not compile environment {environment}")]
    OtherEnvironment {
        /// The signer.
        compiler: Identity,
        /// What the catalog says.
        environment: String,
    },
    /// It is for another node, under another address, or names another compiler than its signer.
    #[error("the catalog does not belong here: its {field} is {found}, not {expected}")]
    Misplaced {
        /// What differs.
        field: &'static str,
        /// What is expected.
        expected: String,
        /// What the catalog says.
        found: String,
    },
    /// The body is not the JSON of a catalog.
    #[error("the catalog has an invalid format")]
    Json(#[source] serde_json::Error),
    /// It cannot be decompressed, or is larger than is accepted.
    #[error("cannot read the compressed catalog")]
    Compressed(#[from] CompressedJsonError),
    /// Its secrets are encrypted for another key, as after the node has got a new one.
    #[error(
        "cannot decrypt the secrets of the catalog; compile it again if the node has a new key"
    )]
    Secrets(#[from] InputEncryptionError),
    /// A secret is missing.
    #[error(transparent)]
    MissingSecret(#[from] MissingSecret),
    /// It is too large to be stored.
    #[error("cannot sign the catalog")]
    Sign(#[from] EnvelopeSignError),
}

/// The key under which a node's catalog is stored.
pub fn catalog_key(node: &Identity, address: CatalogAddress) -> String {
    format!("catalog.{node}.{address}")
}

impl CompiledCatalog {
    /// Compresses a catalog in its stored form, and encrypts its secrets for the node's key.
    pub fn new(
        statement: CatalogStatement,
        catalog: &Map<String, Value>,
        secrets: &CatalogSecrets,
        node_key: &PublicKey,
    ) -> Result<Self, CatalogRefusal> {
        let compressed = compress_json(catalog)?;
        let encrypt = || {
            let secrets = Value::Object(secrets.values().clone());
            let inputs = Map::from_iter([(SECRETS_INPUT.to_owned(), secrets)]);
            let encryptor = InputEncryptor::new(statement.address.catalog_id())?;
            encryptor.encrypt_inputs([(&statement.node, node_key)], &inputs)
        };
        let secrets = (!secrets.is_empty()).then(encrypt).transpose()?;
        Ok(Self { statement, catalog: compressed, secrets })
    }

    /// Signs it as its compiler.
    pub fn sign(&self, signer: &Signer) -> Result<Vec<u8>, CatalogRefusal> {
        Ok(sign_envelope(EnvelopeKind::Catalog, self, signer)?)
    }

    /// Reads what is stored without verifying who signed it, for those who show it.
    pub fn read_unverified(bytes: &[u8]) -> Result<Self, CatalogRefusal> {
        let envelope = Envelope::decode(EnvelopeKind::Catalog, bytes)?;
        serde_json::from_slice(envelope.body()).map_err(CatalogRefusal::Json)
    }

    /// The stored form, if it has its address. Its secrets are digests.
    pub fn stored_form(&self) -> Result<Map<String, Value>, CatalogRefusal> {
        let mut catalog: Map<String, Value> =
            decompress_json(&self.catalog, MAX_CATALOG_CONTENT_BYTES)?;
        let found = CatalogAddress::of_catalog(&mut catalog);
        check_same("address", &self.statement.address, &found)?;
        found.name_catalog(&mut catalog);
        Ok(catalog)
    }

    /// Puts the secrets back, with the key of the node.
    pub fn open(&self, key: &KeyPair) -> Result<OpenCatalog, CatalogRefusal> {
        let mut catalog = self.stored_form()?;
        let statement = self.statement.clone();
        let secrets = match &self.secrets {
            Some(encrypted) => {
                let id = statement.address.catalog_id();
                match encrypted.decrypt_inputs(&statement.node, key, id)?.remove(SECRETS_INPUT) {
                    Some(Value::Object(values)) => CatalogSecrets::new(values),
                    _ => CatalogSecrets::default(),
                }
            }
            None => CatalogSecrets::default(),
        };
        secrets.restore(&mut catalog)?;
        Ok(OpenCatalog { statement, catalog })
    }
}

/// Verifies what is stored under the key of this node and address: the signature, that its signer is a compiler, and that the catalog is this one.
pub fn open_compiled_catalog(
    bytes: &[u8],
    node: &Identity,
    address: CatalogAddress,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<CompiledCatalog, CatalogRefusal> {
    let envelope = Envelope::decode(EnvelopeKind::Catalog, bytes)?;
    let opened = envelope.verify(trust, cache, now, &[UserRole::Service])?;
    let compiled: CompiledCatalog =
        serde_json::from_slice(opened.body).map_err(CatalogRefusal::Json)?;
    let sender = &opened.sender;
    if !sender.rights().contains(&ServiceRight::Compile) {
        return Err(CatalogRefusal::NotACompiler(sender.identity.clone()));
    }
    let CatalogStatement { compiler, node: for_node, address: stored, environment, .. } =
        &compiled.statement;
    if !ServiceRight::is_for_environment(&sender.tags, environment) {
        return Err(CatalogRefusal::OtherEnvironment {
            compiler: sender.identity.clone(),
            environment: environment.clone(),
        });
    }
    check_same("compiler", &sender.identity, compiler)?;
    check_same("node", node, for_node)?;
    check_same("address", &address, stored)?;
    Ok(compiled)
}

fn check_same<T: PartialEq + ToString>(
    field: &'static str,
    expected: &T,
    found: &T,
) -> Result<(), CatalogRefusal> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (expected.to_string(), found.to_string());
    Err(CatalogRefusal::Misplaced { field, expected, found })
}
