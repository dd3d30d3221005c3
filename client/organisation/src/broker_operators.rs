//! Asks the servers of the broker which operators they accept. nats-server reads its operator's token at its start only.

use std::time::Duration;

use muster_bus::Bytes;
use muster_wire::subject;
use muster_wire::token::PublicKey;
use muster_wire::token::claims::OperatorClaims;
use muster_wire::token::decode::decode_token;
use serde::Deserialize;

use crate::Organisation;
use crate::push::PushError;

/// Subject on which each server describes itself.
const SERVER_DESCRIPTION_SUBJECT: &str = "$SYS.REQ.SERVER.PING.VARZ";
/// Name below the inbox for the descriptions.
const INBOX_NAME: &str = "operators";
/// The servers have answered when none has answered for this time.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// A server's description of itself.
#[derive(Debug, Deserialize)]
struct ServerDescription {
    server: ServerName,
    data: ServerVariables,
}

#[derive(Debug, Deserialize)]
struct ServerName {
    name: String,
}

#[derive(Debug, Deserialize)]
struct ServerVariables {
    #[serde(default)]
    trusted_operators_jwt: Vec<String>,
}

/// The servers that answered, by whether they accept account tokens of an operator.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct BrokerOperators {
    /// Names of servers that accept them.
    pub accepting: Vec<String>,
    /// Names of servers that do not.
    pub refusing: Vec<String>,
}

impl Organisation {
    /// Asks all connected servers of the broker whether they accept account tokens of this operator.
    pub async fn find_broker_operators(
        &self,
        operator: PublicKey,
    ) -> Result<BrokerOperators, PushError> {
        let creds = self.system_credentials()?;
        let bus = self.connect(&creds).await?;
        let key = creds.key_pair().public_key().to_string();
        let inbox = format!("{}.{INBOX_NAME}", subject::inbox_prefix(&key));
        let subjects = (SERVER_DESCRIPTION_SUBJECT, inbox.as_str());
        let answers = bus.request_all(subjects, Bytes::from_static(b"{}"), QUIET_TIME).await?;
        bus.close().await?;
        let mut found = BrokerOperators::default();
        for answer in answers {
            let Ok(description) = serde_json::from_slice::<ServerDescription>(answer.payload())
            else {
                continue;
            };
            let tokens = description.data.trusted_operators_jwt;
            let is_accepted = tokens.iter().any(|token| accepts_operator(token, operator));
            let list = if is_accepted { &mut found.accepting } else { &mut found.refusing };
            list.push(description.server.name);
        }
        if found == BrokerOperators::default() {
            return Err(PushError::NoServers(QUIET_TIME.as_secs()));
        }
        Ok(found)
    }
}

/// Whether a server with this operator's token accepts account tokens of this operator.
fn accepts_operator(token: &str, operator: PublicKey) -> bool {
    let Ok(token) = decode_token::<OperatorClaims>(token.trim()) else {
        return false;
    };
    let claims = token.unverified_claims();
    claims.sub == operator || claims.nats.signing_keys.contains(&operator)
}

#[cfg(test)]
mod tests {
    use muster_wire::token::claims::OperatorClaims;
    use muster_wire::token::encode::{self, TokenValidity};
    use muster_wire::token::{KeyKind, KeyPair};

    use super::accepts_operator;

    #[test]
    fn server_accepts_the_subject_and_the_signing_keys_of_its_operator() {
        let [old, new, other] =
            [1, 2, 3].map(|seed| KeyPair::from_raw(KeyKind::Operator, &[seed; 32]));
        let claims =
            OperatorClaims { signing_keys: vec![new.public_key()], ..OperatorClaims::new(None) };
        let validity = TokenValidity::without_end(1);
        let token = encode::issue_operator_token("acme", claims, validity, &old).unwrap();
        let text = format!("{token}\n");
        assert!(accepts_operator(&text, old.public_key()));
        assert!(accepts_operator(&text, new.public_key()));
        assert!(!accepts_operator(&text, other.public_key()));
        assert!(!accepts_operator("", old.public_key()));
    }
}
