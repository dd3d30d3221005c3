//! Restores lost entries of enrolled machines in the register `PROVISION`. Without its entry, a machine gets no renewed token, and another machine can enrol
//! with its name.
//!
//! The sources are the tokens in `TOKENS` and in the signed records in `NODES`. Each token is verified: an entry always has the key of a valid token, which is
//! not revoked.

use muster_bus::Bus;
use muster_wire::Millis;
use muster_wire::enrolment::NameEntry;
use muster_wire::identity::Identity;
use muster_wire::sign::{Envelope, EnvelopeKind};
use muster_wire::stores::{NODES_BUCKET, TOKENS_BUCKET};
use muster_wire::token::AccountTrust;

use crate::push::PushError;
use crate::renewal::{NodeRecords, put_token, stored_tokens, token_record};
use crate::{CredentialRecord, Organisation};

impl Organisation {
    /// Writes the missing entries of enrolled machines, and returns their names. Does nothing if the register is older than a day, and must run before
    /// `push_names`, which makes it older.
    pub async fn restore_names(&self, now: Millis) -> Result<Vec<Identity>, PushError> {
        let trust = self.fleet_trust()?;
        let register = self.open_name_register(now).await?;
        let mut restored = Vec::new();
        if self.had_enroller()? && register.names.is_new(now).await? {
            let issued = self.issued_names(&trust)?;
            let tokens = register.bus.bucket(TOKENS_BUCKET.name);
            let mut nodes = stored_tokens(&trust, &tokens, now).await?;
            let stored: Vec<Identity> = nodes.keys().cloned().collect();
            add_tokens_of_records(&mut nodes, &register.bus, &trust, now).await?;
            nodes.retain(|name, node| {
                !issued.contains_key(name) && !trust.has_revocation(&node.key)
            });
            for (name, node) in nodes {
                let entry = restored_entry(&node, &trust);
                let write = |existing: Option<NameEntry>| match existing {
                    Some(_) => (None, false),
                    None => (Some(entry.clone()), true),
                };
                if register.names.edit_entry(&name, write).await? {
                    if !stored.contains(&name) {
                        put_token(&tokens, &node).await?;
                    }
                    restored.push(name);
                }
            }
        }
        register.close().await?;
        Ok(restored)
    }
}

/// Adds the tokens in the nodes' records, unless a newer one is known. The signature of the record is not checked: its token is.
async fn add_tokens_of_records(
    nodes: &mut NodeRecords,
    bus: &Bus,
    trust: &AccountTrust,
    now: Millis,
) -> Result<(), PushError> {
    for entry in bus.bucket(NODES_BUCKET.name).list(">").await? {
        let value = entry.value.as_deref().unwrap_or_default();
        let Ok(envelope) = Envelope::decode(EnvelopeKind::Record, value) else { continue };
        let Some(found) = token_record(trust, &entry.key, envelope.token(), now) else { continue };
        let is_newer = nodes.get(&found.name).is_none_or(|known| known.issued_at < found.issued_at);
        if is_newer {
            nodes.insert(found.name.clone(), found);
        }
    }
    Ok(())
}

/// The entry of an enrolled machine. Its bootstrap token is unknown; the account's key stands for it.
fn restored_entry(node: &CredentialRecord, trust: &AccountTrust) -> NameEntry {
    NameEntry {
        identity: node.name.clone(),
        key: node.key,
        credential: Some(trust.account_key()),
        at: node.issued_at.saturating_mul(1000),
        released: false,
        revoked: false,
        former: Vec::new(),
    }
}
