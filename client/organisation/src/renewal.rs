//! Renews tokens of nodes for `rpc org push`. Publishes the tokens that the organisation issued, which renewal starts from, and records
//! renewed tokens, including those that an enroller renewed.

use std::collections::BTreeMap;

use muster_bus::{Bucket, Bus, Bytes, TokenRenewal, verify_stored_token};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::stores::{TOKENS_BUCKET, TRUST_BUCKET};
use muster_wire::token::AccountTrust;

use crate::push::PushError;
use crate::{
    CredentialRecord, CredentialState, Organisation, OrganisationError, OrganisationKey,
    OrganisationLock, PrincipalKind, ledger,
};

/// Where earlier versions stored the tokens of nodes in the trust bucket.
const FORMER_TOKEN_PREFIX: &str = "token.";

/// One record for each node.
pub(crate) type NodeRecords = BTreeMap<Identity, CredentialRecord>;

/// Which tokens of nodes are signed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeTokenUpdate {
    /// Those of which a third of the validity has passed. Tokens that never expire are left.
    Due,
    /// Those that another key signed.
    SignedByOtherKey,
}

impl Organisation {
    /// Renews the token of every node once a third of its validity has passed. Returns the nodes. `push_names` must run before, because
    /// the register of names can forbid a renewal.
    pub async fn renew_tokens(
        &self,
        _lock: &OrganisationLock,
        now: Millis,
    ) -> Result<Vec<Identity>, PushError> {
        self.update_node_tokens(NodeTokenUpdate::Due, now).await
    }

    /// Has the tokens that the rule selects signed again, and records the new ones. Returns the nodes.
    pub(crate) async fn update_node_tokens(
        &self,
        update: NodeTokenUpdate,
        now: Millis,
    ) -> Result<Vec<Identity>, PushError> {
        let trust = self.fleet_trust()?;
        let register = self.open_name_register(now).await?;
        let tokens = register.bus.bucket(TOKENS_BUCKET.name);
        let mut issued = self.valid_nodes(&trust, now)?;
        if update == NodeTokenUpdate::Due {
            issued.retain(|_, node| node.expires.is_some());
        }
        publish_missing(&issued, &trust, &tokens, now).await?;
        let renewal = TokenRenewal {
            names: &register.names,
            tokens: &tokens,
            trust: &trust,
            node_role: &self.load_key(OrganisationKey::Node)?,
        };
        let signed = match update {
            NodeTokenUpdate::Due => renewal.renew_due(now).await?,
            NodeTokenUpdate::SignedByOtherKey => renewal.sign_again(now).await?,
        };
        for (node, stored) in stored_tokens(&trust, &tokens, now).await? {
            let is_new = issued.get(&node).is_some_and(|known| match update {
                NodeTokenUpdate::Due => stored.renews(known),
                NodeTokenUpdate::SignedByOtherKey => stored.replaces(known),
            });
            if is_new {
                ledger::append_record(&self.layout().ledger_file(), &stored)?;
            }
        }
        register.close().await?;
        Ok(signed)
    }

    /// Publishes the token of a node that was just issued, so that an enroller can renew it.
    pub async fn publish_token(
        &self,
        record: &CredentialRecord,
        now: Millis,
    ) -> Result<(), PushError> {
        let register = self.open_name_register(now).await?;
        let tokens = register.bus.bucket(TOKENS_BUCKET.name);
        put_token(&tokens, record).await?;
        register.close().await
    }

    /// The newest record of each node, if its token is valid.
    fn valid_nodes(
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
    fn replaces(&self, earlier: &Self) -> bool {
        self.key == earlier.key
            && self.token != earlier.token
            && self.issued_at >= earlier.issued_at
    }
}

/// Moves the tokens of nodes from the trust bucket, where earlier versions stored them and services could write, to their own bucket.
pub(crate) async fn move_former_tokens(
    trust: &AccountTrust,
    bus: &Bus,
    now: Millis,
) -> Result<(), PushError> {
    let (former, tokens) = (bus.bucket(TRUST_BUCKET.name), bus.bucket(TOKENS_BUCKET.name));
    for entry in former.list(&format!("{FORMER_TOKEN_PREFIX}>")).await? {
        let node = entry.key.strip_prefix(FORMER_TOKEN_PREFIX).unwrap_or_default();
        let text = String::from_utf8_lossy(entry.value.as_deref().unwrap_or_default());
        if verify_stored_token(trust, node, text.trim(), now).is_some()
            && tokens.get(node).await?.is_none()
        {
            tokens.put(node, Bytes::from(text.trim().to_owned())).await?;
        }
        former.delete(&entry.key).await?;
    }
    Ok(())
}

/// Publishes each issued token unless the bucket has it or a renewed one.
async fn publish_missing(
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

pub(crate) async fn put_token(tokens: &Bucket, record: &CredentialRecord) -> Result<(), PushError> {
    tokens.put(record.name.as_str(), Bytes::from(record.token.clone())).await?;
    Ok(())
}

/// The tokens of nodes in their bucket. Services can write it, so tokens that fail verification are left out.
pub(crate) async fn stored_tokens(
    trust: &AccountTrust,
    tokens: &Bucket,
    now: Millis,
) -> Result<NodeRecords, PushError> {
    let mut stored = NodeRecords::new();
    for entry in tokens.list(">").await? {
        let text = String::from_utf8_lossy(entry.value.as_deref().unwrap_or_default());
        if let Some(record) = token_record(trust, &entry.key, &text, now) {
            stored.insert(record.name.clone(), record);
        }
    }
    Ok(stored)
}

/// The record of a token that the broker has under this key of a bucket, if it is the valid token of that node.
pub(crate) fn token_record(
    trust: &AccountTrust,
    bucket_key: &str,
    token: &str,
    now: Millis,
) -> Option<CredentialRecord> {
    let node = verify_stored_token(trust, bucket_key, token.trim(), now)?;
    Some(CredentialRecord {
        kind: PrincipalKind::Node,
        name: node.identity,
        key: node.key,
        issued_at: node.issued_at / 1000,
        expires: node.expires.map(|at| at / 1000),
        token: token.trim().to_owned(),
    })
}
