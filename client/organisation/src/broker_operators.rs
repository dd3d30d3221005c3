//! Asks the servers of the broker which operators they accept. nats-server reads its operator's token at its start only.

use muster_wire::token::PublicKey;
use muster_wire::token::claims::OperatorClaims;
use muster_wire::token::decode::decode_token;
use serde::Deserialize;

use crate::Organisation;
use crate::push::PushError;
use crate::server_reports::{ByServer, QUIET_TIME, SystemClient};

/// The operators that a server accepts, in its description of itself.
#[derive(Debug, Deserialize)]
struct OperatorVariables {
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
        let client = SystemClient::connect(self).await?;
        let servers: ByServer<OperatorVariables> = client.ask("VARZ", "{}").await?;
        client.close().await?;
        let mut found = BrokerOperators::default();
        for (name, variables) in servers {
            let mut tokens = variables.trusted_operators_jwt.iter();
            let is_accepted = tokens.any(|token| accepts_operator(token, operator));
            let list = if is_accepted { &mut found.accepting } else { &mut found.refusing };
            list.push(name);
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
