//! Replaces the account tokens of a restored directory by later ones: a token that is signed from the backup's would lack later revocations.

use muster_wire::token::Seconds;

use crate::account::write_token;
use crate::older_copy::look_up_token;
use crate::push::PushError;
use crate::{AccountRealm, Organisation, OrganisationError, OrganisationLock};

/// An account token that replaced that of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptedToken {
    /// The account.
    pub realm: AccountRealm,
    /// When the token was signed.
    pub issued_at: Seconds,
    /// Revocations that the directory lacked.
    pub revocations: usize,
    /// Signing keys that the directory lacked. Their secret keys are lost.
    pub signing_keys: usize,
}

/// What the broker answered about its account tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerTokens {
    /// Tokens that were later than those of the directory.
    pub adopted: Vec<AdoptedToken>,
    /// Accounts whose token the broker does not have.
    pub unknown: Vec<AccountRealm>,
}

impl Organisation {
    /// Takes over the tokens of the broker that are later than those of the directory.
    pub async fn adopt_broker_tokens(
        &self,
        lock: &OrganisationLock,
    ) -> Result<BrokerTokens, PushError> {
        let bus = self.connect(&self.system_credentials()?).await?;
        let mut tokens = BrokerTokens::default();
        for realm in self.realms() {
            let account = self.realm_trust(realm)?.account_key();
            match look_up_token(&bus, account).await {
                Some(token) => tokens.adopted.extend(self.adopt_token(lock, &token)?),
                None => tokens.unknown.push(realm),
            }
        }
        bus.close().await?;
        Ok(tokens)
    }

    /// Takes over a token if it is an authentic one of an account of the organisation, and later than that of the directory.
    pub fn adopt_token(
        &self,
        _lock: &OrganisationLock,
        token: &str,
    ) -> Result<Option<AdoptedToken>, OrganisationError> {
        for realm in self.realms() {
            let Some(later) = self.later_token(&self.realm_trust(realm)?, token)? else { continue };
            write_token(&self.layout().realm_token(realm), later.trust.account_token())?;
            self.record_known(later.trust.account_token())?;
            self.write_broker_accounts()?;
            return Ok(Some(AdoptedToken {
                realm,
                issued_at: later.trust.issued_at(),
                revocations: later.revocations,
                signing_keys: later.signing_keys,
            }));
        }
        Ok(None)
    }
}
