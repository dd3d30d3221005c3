//! Compares the account tokens of the broker's servers with those of the organisation's directory. nats-server does not sync them to its disk: after a power
//! failure it can have an older one, and accept users that were revoked since. Sends no token.

use muster_bus::Bytes;
use muster_wire::token::AccountTrust;
use serde::Deserialize;
use serde_json::json;

use crate::push::PushError;
use crate::server_reports::SystemClient;

#[derive(Debug, Deserialize)]
struct AccountReport {
    account_detail: AccountDetail,
}

#[derive(Debug, Deserialize)]
struct AccountDetail {
    /// Empty on a server to which no user of the account has connected since its start; it reads the token when one does.
    #[serde(default)]
    jwt: String,
}

impl SystemClient {
    /// Names of the servers that have another token of an account than this. With `follows`, the directory is one of a monitoring system, which gets no
    /// later tokens: the newest one of the servers counts.
    pub(crate) async fn find_other_tokens(
        &self,
        trust: &AccountTrust,
        follows: bool,
    ) -> Result<Vec<String>, PushError> {
        let options = json!({"account": trust.account_key()}).to_string();
        let answers = self.ask_with_ids::<AccountReport>("ACCOUNTZ", Bytes::from(options)).await?;
        let mut newest = trust.clone();
        for answer in answers.iter().filter(|_| follows) {
            if let Ok(newer) = newest.update(&answer.data.account_detail.jwt) {
                newest = newer;
            }
        }
        let is_other = |jwt: &str| !jwt.is_empty() && jwt != newest.account_token();
        let others = answers.into_iter().filter(|answer| is_other(&answer.data.account_detail.jwt));
        Ok(others.map(|answer| answer.server.name).collect())
    }
}
