//! Renews tokens of nodes for `rpc org push`, and records renewed tokens, including those that an enroller renewed.

use std::collections::HashMap;

use muster_bus::{Bucket, TokenRenewal};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::stores::{TRUST_BUCKET, renewed_token_key};
use muster_wire::token::claims::UserClaims;
use muster_wire::token::decode::decode_token;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{AccountTrust, Seconds};

use super::push::PushError;
use super::{
    CredentialRecord, CredentialState, Organisation, OrganisationKey, OrganisationLock,
    PrincipalKind, ledger,
};

impl Organisation {
    /// Renews the token of every node once a third of its validity has passed. Returns the nodes. `push_names` must run before, because
    /// the renewal reads the names from the broker.
    pub async fn renew_tokens(
        &self,
        _lock: &OrganisationLock,
        now: Millis,
    ) -> Result<Vec<Identity>, PushError> {
        let trust = self.fleet_trust()?;
        let register = self.open_name_register(now).await?;
        let tokens = register.bus.bucket(TRUST_BUCKET.name);
        let renewal = TokenRenewal {
            names: &register.names,
            tokens: &tokens,
            trust: &trust,
            node_role: &self.load_key(OrganisationKey::Node)?,
        };
        let renewed = renewal.renew_due(now).await?;
        self.record_renewed(&trust, &tokens, now).await?;
        register.close().await?;
        Ok(renewed)
    }

    /// Records each renewed token that expires later than the newest recorded token of its key.
    async fn record_renewed(
        &self,
        trust: &AccountTrust,
        tokens: &Bucket,
        now: Millis,
    ) -> Result<(), PushError> {
        let mut newest: HashMap<String, Seconds> = HashMap::new();
        for record in self.read_records()? {
            let is_node = record.kind == PrincipalKind::Node;
            if let Some(expires) = record.expires.filter(|_| is_node)
                && record.credential_state(&trust.claims().nats, now / 1000)
                    != CredentialState::Revoked
            {
                let known = newest.entry(record.key.to_string()).or_default();
                *known = expires.max(*known);
            }
        }
        if newest.is_empty() {
            return Ok(());
        }
        for entry in tokens.list(&renewed_token_key(">")).await? {
            let text = String::from_utf8_lossy(entry.value.as_deref().unwrap_or_default());
            if let Some(record) = renewed_record(text.trim(), trust, now)
                && let Some(known) = newest.get(&record.key.to_string())
                && record.expires.is_some_and(|expires| expires > *known)
            {
                ledger::append_record(&self.layout().ledger_file(), &record)?;
            }
        }
        Ok(())
    }
}

/// The record of a renewed token. `None` if the token fails verification.
fn renewed_record(token: &str, trust: &AccountTrust, now: Millis) -> Option<CredentialRecord> {
    let verified = trust.verify_user(token, now).ok()?;
    let decoded = decode_token::<UserClaims>(token).ok()?;
    let claims = decoded.unverified_claims();
    Some(CredentialRecord {
        kind: PrincipalKind::Node,
        name: verified.identity,
        key: verified.key,
        issued_at: claims.iat,
        expires: TokenLife::of_claims(claims).map(|life| life.expires),
        token: token.to_owned(),
    })
}
