//! Renews tokens of nodes for `rpc org push`. Publishes the tokens that the organisation issued, which renewal starts from, and records
//! renewed tokens, including those that an enroller renewed.

use std::collections::BTreeMap;

use muster_bus::{Bucket, Bytes, TokenRenewal, verify_stored_token};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::stores::{TRUST_BUCKET, renewed_token_key};
use muster_wire::token::AccountTrust;

use crate::push::PushError;
use crate::{
    CredentialRecord, CredentialState, Organisation, OrganisationError, OrganisationKey,
    OrganisationLock, PrincipalKind, ledger,
};

/// One record for each node.
pub(crate) type NodeRecords = BTreeMap<Identity, CredentialRecord>;

impl Organisation {
    /// Renews the token of every node once a third of its validity has passed. Returns the nodes. `push_names` must run before, because
    /// the register of names can forbid a renewal.
    pub async fn renew_tokens(
        &self,
        _lock: &OrganisationLock,
        now: Millis,
    ) -> Result<Vec<Identity>, PushError> {
        let trust = self.fleet_trust()?;
        let register = self.open_name_register(now).await?;
        let tokens = register.bus.bucket(TRUST_BUCKET.name);
        let issued = self.expiring_nodes(&trust, now)?;
        publish_missing(&issued, &trust, &tokens, now).await?;
        let renewal = TokenRenewal {
            names: &register.names,
            tokens: &tokens,
            trust: &trust,
            node_role: &self.load_key(OrganisationKey::Node)?,
        };
        let renewed = renewal.renew_due(now).await?;
        let stored = stored_tokens(&trust, &tokens, now).await?;
        let is_renewed = |stored: &CredentialRecord| {
            issued.get(&stored.name).is_some_and(|known| stored.renews(known))
        };
        self.append_records(stored.into_values().filter(is_renewed))?;
        register.close().await?;
        Ok(renewed)
    }

    /// Publishes the token of a node that was just issued, so that an enroller can renew it.
    pub async fn publish_token(
        &self,
        record: &CredentialRecord,
        now: Millis,
    ) -> Result<(), PushError> {
        let register = self.open_name_register(now).await?;
        let tokens = register.bus.bucket(TRUST_BUCKET.name);
        put_token(&tokens, record).await?;
        register.close().await
    }

    /// Appends records to the list of issued credentials.
    pub(crate) fn append_records(
        &self,
        records: impl Iterator<Item = CredentialRecord>,
    ) -> Result<(), OrganisationError> {
        let path = self.layout().ledger_file();
        records.into_iter().try_for_each(|record| ledger::append_record(&path, &record))
    }

    /// The newest record of each node, if its token is valid and expires.
    fn expiring_nodes(
        &self,
        trust: &AccountTrust,
        now: Millis,
    ) -> Result<NodeRecords, OrganisationError> {
        let mut nodes = self.valid_nodes(trust, now)?;
        nodes.retain(|_, node| node.expires.is_some());
        Ok(nodes)
    }

    /// The newest record of each node, if its token is valid.
    pub(crate) fn valid_nodes(
        &self,
        trust: &AccountTrust,
        now: Millis,
    ) -> Result<NodeRecords, OrganisationError> {
        let records = self.read_records()?.into_iter();
        let nodes = records.filter(|record| record.kind == PrincipalKind::Node);
        let mut newest: NodeRecords = nodes.map(|node| (node.name.clone(), node)).collect();
        newest.retain(|_, node| {
            node.credential_state(&trust.claims().nats, now / 1000) == CredentialState::Valid
        });
        Ok(newest)
    }
}

impl CredentialRecord {
    /// Whether this is a later token of the same key.
    fn renews(&self, earlier: &Self) -> bool {
        self.key == earlier.key && self.expires > earlier.expires
    }

    /// Whether this is another token of the same key, signed no earlier.
    pub(crate) fn replaces(&self, earlier: &Self) -> bool {
        self.key == earlier.key
            && self.token != earlier.token
            && self.issued_at >= earlier.issued_at
    }
}

/// Publishes each issued token unless the bucket has it or a renewed one.
pub(crate) async fn publish_missing(
    issued: &NodeRecords,
    trust: &AccountTrust,
    tokens: &Bucket,
    now: Millis,
) -> Result<(), PushError> {
    let stored = stored_tokens(trust, tokens, now).await?;
    for (node, record) in issued {
        let is_current = stored
            .get(node)
            .is_some_and(|stored| stored.key == record.key && !record.renews(stored));
        if !is_current {
            put_token(tokens, record).await?;
        }
    }
    Ok(())
}

async fn put_token(tokens: &Bucket, record: &CredentialRecord) -> Result<(), PushError> {
    let key = renewed_token_key(record.name.as_str());
    tokens.put(&key, Bytes::from(record.token.clone())).await?;
    Ok(())
}

/// The tokens of nodes in the trust bucket. Services can write it, so tokens that fail verification are left out.
pub(crate) async fn stored_tokens(
    trust: &AccountTrust,
    tokens: &Bucket,
    now: Millis,
) -> Result<NodeRecords, PushError> {
    let mut stored = NodeRecords::new();
    for entry in tokens.list(&renewed_token_key(">")).await? {
        let text = String::from_utf8_lossy(entry.value.as_deref().unwrap_or_default());
        if let Some(node) = verify_stored_token(trust, &entry.key, text.trim(), now) {
            let record = CredentialRecord {
                kind: PrincipalKind::Node,
                name: node.identity.clone(),
                key: node.key,
                issued_at: node.issued_at / 1000,
                expires: node.expires.map(|at| at / 1000),
                token: text.trim().to_owned(),
            };
            stored.insert(node.identity, record);
        }
    }
    Ok(stored)
}
