//! Proposals and approvals as local files: size-limited reads, writes with owner-only permissions, no overwriting.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use muster_calls::{ClientError, OfflineSigner};
use muster_files::files::{self, FileAccessError};
use muster_wire::approval::{ApprovalError, ApprovedProposal};
use muster_wire::identity::Identity;
use muster_wire::limits;

use crate::plan::RequestPlan;
use crate::settings::RpcSettings;

/// Why a proposal or approval failed.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalFileError {
    /// The file cannot be read or written, or is too large.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// The file is not a valid proposal or approval.
    #[error("{} is not valid", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The verification error.
        #[source]
        source: ApprovalError,
    },
    /// The typed request differs from the approved one.
    #[error("the request differs from the approved request: the {0} is not the same")]
    Differs(&'static str),
    /// An approval with node names is combined with filters.
    #[error("an approval specifies its nodes; remove the filters")]
    WithFilters,
    /// The proposal hides an input that is not declared sensitive.
    #[error(
        "the proposal hides the input `{0}`, which no DDL known here declares sensitive; do not approve a value that you cannot see"
    )]
    Hidden(String),
    /// A user cannot approve their own proposal.
    #[error("{0} made this proposal and cannot approve it; a second user must approve it")]
    OwnProposal(Identity),
    /// A key or trust error.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Loads the signer that the settings name, without a connection.
pub fn load_offline_signer(settings: &RpcSettings) -> Result<OfflineSigner, ApprovalFileError> {
    let operator = settings.operator.to_string();
    Ok(OfflineSigner::load(&settings.credentials, &operator, &settings.account)?)
}

/// Reads a proposal or an approval of at most this many bytes.
pub fn read_approval_file(path: &Path, limit: usize) -> Result<Vec<u8>, ApprovalFileError> {
    let mut bytes = files::read_bytes(path, limit)?;
    // Strip a trailing newline, added by an editor or by this program.
    bytes.truncate(bytes.trim_ascii_end().len());
    Ok(bytes)
}

/// Writes a new file with owner-only permissions, because it contains digests of secrets.
pub fn write_approval_file(path: &Path, envelope: &[u8]) -> Result<(), ApprovalFileError> {
    Ok(files::create_secret(path, &[envelope, b"\n"].concat())?)
}

/// A loaded approval.
#[derive(Debug)]
pub struct LoadedApproval {
    /// The approved nodes.
    pub nodes: BTreeSet<Identity>,
    /// The encoded approval, for the request.
    pub text: String,
}

/// Loads the approval in this file, if it approves exactly this request and was made by another user.
pub fn load_approval(
    path: &Path,
    plan: &RequestPlan<'_>,
    settings: &RpcSettings,
) -> Result<LoadedApproval, ApprovalFileError> {
    let offline_signer = load_offline_signer(settings)?;
    let bytes = read_approval_file(path, limits::MAX_APPROVAL_BYTES)?;
    let invalid = |source| ApprovalFileError::Invalid { path: path.to_owned(), source };
    let (approved, text) = offline_signer.read_approval(&bytes).map_err(invalid)?;
    approved.proposed.check_validity_period(muster_base::unix_millis_now()).map_err(invalid)?;
    check_same_request(&approved, plan, &offline_signer)?;
    Ok(LoadedApproval { nodes: approved.proposed.proposal.nodes, text })
}

/// Reports differences before the request is sent, because nodes would reject it.
fn check_same_request(
    approved: &ApprovedProposal,
    plan: &RequestPlan<'_>,
    offline_signer: &OfflineSigner,
) -> Result<(), ApprovalFileError> {
    let proposal = &approved.proposed.proposal;
    let is_secret = |name: &str| plan.action.is_sensitive(name);
    let inputs_match = proposal.inputs.matches_request_data(proposal.id, &plan.data, is_secret);
    let comparisons = [
        ("caller", approved.proposed.caller.key == offline_signer.signer.public_key()),
        ("agent", proposal.agent.as_str() == plan.ddl.name()),
        ("action", proposal.action.as_str() == plan.action.name()),
        ("value of an input", inputs_match),
    ];
    match comparisons.into_iter().find(|(_, is_same)| !is_same) {
        Some((field, _)) => Err(ApprovalFileError::Differs(field)),
        None => Ok(()),
    }
}
