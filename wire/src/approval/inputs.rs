//! The inputs of a proposal: in clear where an approver may see them, as digests where they are secret.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The first bytes of everything that is digested.
const DIGEST_DOMAIN: &[u8] = b"muster.proposal.input.v1\0";

/// The inputs of a proposal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalInputs {
    /// What may be seen.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub clear: Map<String, Value>,
    /// What is secret: a digest of each, which differs between proposals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret: BTreeMap<String, String>,
}

impl ProposalInputs {
    /// The inputs of the proposal with this id.
    pub fn new(id: Uuid, data: &Map<String, Value>, is_secret: impl Fn(&str) -> bool) -> Self {
        let mut inputs = Self::default();
        for (name, value) in data {
            if is_secret(name) {
                inputs
                    .secret
                    .insert(name.clone(), digest_secret_input(id, name, value));
            } else {
                inputs.clear.insert(name.clone(), value.clone());
            }
        }
        inputs
    }

    /// Whether the inputs of a request are these, all of them and no others; and none is hidden that is not secret.
    pub fn matches_request_data(
        &self,
        id: Uuid,
        data: &Map<String, Value>,
        is_secret: impl Fn(&str) -> bool,
    ) -> bool {
        self.secret.keys().all(|name| is_secret(name)) && *self == Self::new(id, data, is_secret)
    }
}

/// The id keeps digests of the same secret apart, and guesses made beforehand from being of use.
fn digest_secret_input(id: Uuid, name: &str, value: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(DIGEST_DOMAIN);
    hash.update(id.as_bytes());
    hash.update(name);
    hash.update([0]);
    // A JSON value prints in one way only: keys of objects are sorted.
    hash.update(value.to_string());
    URL_SAFE_NO_PAD.encode(hash.finalize())
}
