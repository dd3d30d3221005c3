//! Sensitive inputs, each encrypted for one node. Neither the broker nor another node can decrypt them.
//!
//! ```text
//! shared = X25519(the request's one-time key, the node's key)
//! key    = sha256("muster.sealed.v1" NUL shared one-time-key node-key input)
//! text   = base64url(ChaCha20-Poly1305(key, nonce 0, the input's value as JSON))
//! ```
//!
//! The node's key is the ed25519 key of its token, as a point of the Montgomery curve. Each key encrypts one text, so the
//! nonce is constant. The request id, the node and the input name are authenticated as associated data: a text moved to
//! another request, node or input fails to decrypt.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use rand::TryRngCore as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use x25519_dalek::{PublicKey as Point, StaticSecret};
use zeroize::Zeroizing;

use crate::identity::Identity;
use crate::limits;
use crate::token::decode::decode_base64_array;
use crate::token::{KeyError, KeyPair, PublicKey};
use crate::unique::check_unique_keys;

const ENCRYPTION_DOMAIN: &[u8] = b"muster.sealed.v1\0";

/// The encrypted inputs of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptedInputs {
    /// The one-time key, 32 bytes in base64url.
    key: String,
    /// Per node, the ciphertext of each input by name.
    nodes: BTreeMap<Identity, BTreeMap<String, String>>,
}

/// Errors of encryption and decryption. The texts never contain input values.
#[derive(Debug, thiserror::Error)]
pub enum InputEncryptionError {
    /// A node's key is not usable for encryption.
    #[error("the key of {node} cannot be used to encrypt inputs")]
    Key {
        /// The node.
        node: Identity,
        /// The key error.
        #[source]
        source: KeyError,
    },
    /// The operating system's random source failed.
    #[error("the operating system's random source failed")]
    Random,
    /// An input cannot be serialized as JSON or encrypted.
    #[error("cannot encrypt the input `{0}`")]
    Input(String),
    /// The encrypted inputs exceed the limit of a request.
    #[error(
        "the request has {0} bytes of encrypted inputs; at most {max} bytes, and {inputs} inputs per node, are allowed",
        max = limits::MAX_ENCRYPTED_INPUT_BYTES,
        inputs = limits::MAX_ENCRYPTED_INPUTS
    )]
    TooLarge(usize),
    /// The request has no encrypted inputs for this node.
    #[error("the request has no inputs encrypted for {0}")]
    NotRecipient(Identity),
    /// The one-time key is invalid.
    #[error("the one-time key of the encrypted inputs is invalid")]
    OneTimeKey,
    /// The text was encrypted for another key, request, node or input, or was modified.
    #[error(
        "cannot decrypt the input `{0}`: it was encrypted for another node or request, or was altered"
    )]
    Decrypt(String),
}

/// Encrypts the inputs of one request with a one-time key.
pub struct InputEncryptor {
    request: Uuid,
    secret: StaticSecret,
    public: Point,
}

impl std::fmt::Debug for InputEncryptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("request", &self.request).finish_non_exhaustive()
    }
}

impl InputEncryptor {
    /// Creates an encryptor with a new one-time key for the request with this id.
    pub fn new(request: Uuid) -> Result<Self, InputEncryptionError> {
        let mut secret = Zeroizing::new([0_u8; 32]);
        rand::rngs::OsRng.try_fill_bytes(&mut *secret).map_err(|_| InputEncryptionError::Random)?;
        Ok(Self::with_secret(request, *secret))
    }

    /// Creates an encryptor with a fixed key, for tests and examples.
    pub fn with_secret(request: Uuid, secret: [u8; 32]) -> Self {
        let secret = StaticSecret::from(secret);
        Self { request, public: Point::from(&secret), secret }
    }

    /// Encrypts the inputs for each of the nodes.
    pub fn encrypt_inputs<'a>(
        &self,
        nodes: impl IntoIterator<Item = (&'a Identity, &'a PublicKey)>,
        inputs: &Map<String, Value>,
    ) -> Result<EncryptedInputs, InputEncryptionError> {
        let mut encrypted = EncryptedInputs {
            key: URL_SAFE_NO_PAD.encode(self.public.as_bytes()),
            nodes: BTreeMap::new(),
        };
        for (node, key) in nodes {
            let to_error = |source| InputEncryptionError::Key { node: node.clone(), source };
            let recipient = Point::from(key.exchange_point().map_err(to_error)?);
            let shared = self.secret.diffie_hellman(&recipient);
            let cipher = NodeCipher {
                shared: shared.as_bytes(),
                one_time: &self.public,
                recipient: &recipient,
                request: self.request,
                node,
            };
            let mut ciphertexts = BTreeMap::new();
            for (input, value) in inputs {
                ciphertexts.insert(input.clone(), cipher.encrypt_input(input, value)?);
            }
            encrypted.nodes.insert(node.clone(), ciphertexts);
        }
        if !encrypted.is_within_limits() {
            return Err(InputEncryptionError::TooLarge(encrypted.text_bytes()));
        }
        Ok(encrypted)
    }
}

impl EncryptedInputs {
    /// The nodes that have encrypted inputs.
    pub fn recipient_nodes(&self) -> impl Iterator<Item = &Identity> {
        self.nodes.keys()
    }

    /// Total bytes of all ciphertext texts.
    pub(crate) fn text_bytes(&self) -> usize {
        self.nodes.values().flat_map(BTreeMap::values).map(String::len).sum()
    }

    /// Whether the encrypted inputs are within the limits of a request.
    pub(crate) fn is_within_limits(&self) -> bool {
        let is_within_limit =
            |ciphertexts: &BTreeMap<_, _>| ciphertexts.len() <= limits::MAX_ENCRYPTED_INPUTS;
        self.nodes.values().all(is_within_limit)
            && self.text_bytes() <= limits::MAX_ENCRYPTED_INPUT_BYTES
    }

    /// Decrypts the inputs of this node in the request with this id.
    pub fn decrypt_inputs(
        &self,
        node: &Identity,
        key: &KeyPair,
        request: Uuid,
    ) -> Result<Map<String, Value>, InputEncryptionError> {
        let ciphertexts =
            self.nodes.get(node).ok_or_else(|| InputEncryptionError::NotRecipient(node.clone()))?;
        let one_time: [u8; 32] =
            decode_base64_array(&self.key).ok_or(InputEncryptionError::OneTimeKey)?;
        let one_time = Point::from(one_time);
        let secret = StaticSecret::from(*key.exchange_secret());
        let shared = secret.diffie_hellman(&one_time);
        if !shared.was_contributory() {
            return Err(InputEncryptionError::OneTimeKey);
        }
        let cipher = NodeCipher {
            shared: shared.as_bytes(),
            one_time: &one_time,
            recipient: &Point::from(&secret),
            request,
            node,
        };
        let decrypt = |(input, ciphertext): (&String, &String)| {
            let value = cipher.decrypt_input(input, ciphertext);
            let to_error = || InputEncryptionError::Decrypt(input.clone());
            value.map(|value| (input.clone(), value)).ok_or_else(to_error)
        };
        ciphertexts.iter().map(decrypt).collect()
    }
}

/// The values that a ciphertext is bound to.
struct NodeCipher<'a> {
    shared: &'a [u8; 32],
    one_time: &'a Point,
    recipient: &'a Point,
    request: Uuid,
    node: &'a Identity,
}

impl NodeCipher<'_> {
    fn input_cipher(&self, input: &str) -> ChaCha20Poly1305 {
        let mut hash = Sha256::new();
        hash.update(ENCRYPTION_DOMAIN);
        hash.update(self.shared);
        hash.update(self.one_time.as_bytes());
        hash.update(self.recipient.as_bytes());
        hash.update(input);
        let key: Zeroizing<[u8; 32]> = Zeroizing::new(hash.finalize().into());
        ChaCha20Poly1305::new(Key::from_slice(&*key))
    }

    /// Names contain no NUL, so the separator makes the concatenation unambiguous.
    fn authenticated_data(&self, input: &str) -> Vec<u8> {
        let node = self.node.as_str().as_bytes();
        [ENCRYPTION_DOMAIN, self.request.as_bytes(), node, b"\0", input.as_bytes()].concat()
    }

    fn encrypt_input(&self, input: &str, value: &Value) -> Result<String, InputEncryptionError> {
        let failed = || InputEncryptionError::Input(input.to_owned());
        let plaintext = serde_json::to_vec(value).map_err(|_| failed())?;
        let plaintext = Zeroizing::new(plaintext);
        let payload = Payload { msg: &plaintext, aad: &self.authenticated_data(input) };
        let ciphertext = self.input_cipher(input).encrypt(&Nonce::default(), payload);
        Ok(URL_SAFE_NO_PAD.encode(ciphertext.map_err(|_| failed())?))
    }

    fn decrypt_input(&self, input: &str, text: &str) -> Option<Value> {
        let ciphertext = URL_SAFE_NO_PAD.decode(text).ok()?;
        let payload = Payload { msg: &ciphertext, aad: &self.authenticated_data(input) };
        let plaintext = self.input_cipher(input).decrypt(&Nonce::default(), payload);
        let plaintext = Zeroizing::new(plaintext.ok()?);
        check_unique_keys(&plaintext).ok()?;
        serde_json::from_slice(&plaintext).ok()
    }
}
