//! The inputs of a proposal: clear text where an approver may see them, digests for secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Domain separation prefix of every digest.
const DIGEST_DOMAIN: &[u8] = b"muster.proposal.input.v1\0";

/// The inputs of a proposal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalInputs {
    /// Inputs in clear text.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub clear: Map<String, Value>,
    /// Digests of secret inputs. They are salted with the proposal id, so they differ between proposals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret: BTreeMap<String, String>,
}

impl ProposalInputs {
    /// Creates the inputs of the proposal with this id.
    pub fn new(id: Uuid, data: &Map<String, Value>, is_secret: impl Fn(&str) -> bool) -> Self {
        let mut inputs = Self::default();
        for (name, value) in data {
            if is_secret(name) {
                inputs.secret.insert(name.clone(), digest_secret_input(id, name, value));
            } else {
                inputs.clear.insert(name.clone(), value.clone());
            }
        }
        inputs
    }

    /// Whether a request has exactly these inputs, and only secret inputs are digests.
    pub fn matches_request_data(
        &self,
        id: Uuid,
        data: &Map<String, Value>,
        is_secret: impl Fn(&str) -> bool,
    ) -> bool {
        self.secret.keys().all(|name| is_secret(name)) && *self == Self::new(id, data, is_secret)
    }
}

/// The id acts as a salt: equal secrets have different digests in different proposals, and precomputed guesses are useless.
fn digest_secret_input(id: Uuid, name: &str, value: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(DIGEST_DOMAIN);
    hash.update(id.as_bytes());
    hash.update(name);
    hash.update([0]);
    // `Value` sorts object keys, so equal values serialize to equal text.
    hash.update(value.to_string());
    URL_SAFE_NO_PAD.encode(hash.finalize())
}
