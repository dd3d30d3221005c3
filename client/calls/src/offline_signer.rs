//! Signs and verifies proposals and approvals with a local key and trust, without a connection.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use muster_base::{duration_millis, unix_millis_now};
use muster_files::SecretOwner;
use muster_wire::approval::{
    ApprovalError, ApprovedProposal, OpenProposal, ProposalApproval, ProposalInputs,
    RequestProposal, open_approval, open_proposal,
};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::{EnvelopeKind, Signer, encode_envelope, sign_envelope};
use muster_wire::token::{AccountTrust, PublicKey, TokenCache, UserCredentials};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{ClientError, Result};

/// A key with its token, and the trust against which the tokens of others are verified.
#[derive(Debug, Clone)]
pub struct OfflineSigner {
    /// The caller's name and key.
    pub signer: Signer,
    /// The trust against which tokens are verified.
    pub trust: AccountTrust,
}

/// The content of a proposal before it is signed.
#[derive(Debug, Clone)]
pub struct ProposalDraft {
    /// The collective.
    pub collective: SubjectName,
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The target nodes, by name.
    pub nodes: BTreeSet<Identity>,
    /// The inputs.
    pub data: Map<String, Value>,
    /// Names of inputs that the approver must not see.
    pub secret: BTreeSet<String>,
    /// Lifetime of the request.
    pub lifetime: Duration,
}

impl OfflineSigner {
    /// Reads credentials and trust. Rejects credentials that other users could read.
    pub fn load(credentials: &Path, operator: &str, account: &Path) -> Result<Self> {
        Ok(Self { signer: load_signer(credentials)?, trust: load_trust(operator, account)? })
    }

    /// Signs a draft and returns the encoded proposal.
    pub fn sign_proposal(&self, draft: &ProposalDraft) -> Result<Vec<u8>> {
        let id = Uuid::now_v7();
        let issued_at = unix_millis_now();
        let proposal = RequestProposal {
            id,
            caller: self.signer.identity().clone(),
            collective: draft.collective.clone(),
            agent: draft.agent.clone(),
            action: draft.action.clone(),
            nodes: draft.nodes.clone(),
            inputs: ProposalInputs::new(id, &draft.data, |name| draft.secret.contains(name)),
            issued_at,
            expires_at: issued_at.saturating_add(duration_millis(draft.lifetime)),
        };
        Ok(sign_envelope(EnvelopeKind::Proposal, &proposal, &self.signer)?)
    }

    /// Verifies an encoded proposal of another user.
    pub fn read_proposal(&self, bytes: &[u8]) -> Result<OpenProposal, ApprovalError> {
        open_proposal(bytes, &self.trust, &TokenCache::new(2), unix_millis_now())
    }

    /// Signs an approval of an encoded proposal. The caller must have shown the proposal to the approver.
    pub fn sign_approval(&self, proposal: &[u8]) -> Result<Vec<u8>> {
        let approval = ProposalApproval {
            proposal: encode_envelope(proposal),
            approver: self.signer.identity().clone(),
            approved_at: unix_millis_now(),
        };
        Ok(sign_envelope(EnvelopeKind::Approval, &approval, &self.signer)?)
    }

    /// Verifies an encoded approval as nodes do. Also returns the value for [`crate::RpcCall::approval`].
    pub fn read_approval(&self, bytes: &[u8]) -> Result<(ApprovedProposal, String), ApprovalError> {
        let text = encode_envelope(bytes);
        let approved = open_approval(&text, &self.trust, &TokenCache::new(2), unix_millis_now())?;
        Ok((approved, text))
    }
}

/// Reads the credentials of a signer. Rejects credentials that other users could read.
pub fn load_signer(path: &Path) -> Result<Signer> {
    let text =
        muster_files::read_secret(path, SecretOwner::Person, UserCredentials::MAX_FILE_BYTES)?;
    let creds = UserCredentials::parse(&text)
        .map_err(|source| ClientError::Creds { path: path.to_owned(), source })?;
    Ok(Signer::new(creds)?)
}

fn load_trust(operator: &str, account: &Path) -> Result<AccountTrust> {
    let text = std::fs::read_to_string(account).map_err(|source| ClientError::Read {
        content: "the account's token",
        path: account.to_owned(),
        source,
    })?;
    let to_error = |source| ClientError::Trust { path: account.to_owned(), source };
    let operator = PublicKey::parse(operator).map_err(|error| to_error(error.into()))?;
    AccountTrust::new(operator, text.trim()).map_err(to_error)
}
