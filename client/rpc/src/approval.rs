//! Proposals and approvals as files on this machine: read within limits, written for their owner only, and never over another file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use muster_client::{ClientError, Person};
use muster_wire::approval::{ApprovalError, Approved};
use muster_wire::identity::Identity;
use muster_wire::limits;

use crate::ask::Plan;
use crate::exit::Exit;
use crate::settings::Settings;

/// Why nothing was proposed or approved.
#[derive(Debug, thiserror::Error)]
pub enum ApprovingError {
    /// A file that cannot be read or written.
    #[error("cannot {verb} {}", path.display())]
    File {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// More bytes than any approval has.
    #[error("{} has more than {limit} bytes; is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that are read.
        limit: usize,
    },
    /// A file that does not count.
    #[error("{} does not count", path.display())]
    Void {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: ApprovalError,
    },
    /// What is typed is not what was approved.
    #[error("what was approved is not what is asked: the {0} differs")]
    Differs(&'static str),
    /// An approval of another request is given besides filters.
    #[error("an approval names its nodes; leave the filters out")]
    AndFilters,
    /// A proposal that hides what need not be hidden.
    #[error(
        "the proposal hides the input `{0}`, which is no secret as far as is known here; do not approve what you cannot see"
    )]
    Hidden(String),
    /// Oneself.
    #[error("{0} wants to ask this, and cannot approve it; it takes a second person")]
    Oneself(Identity),
    /// Nobody can be asked.
    #[error("there is nobody to ask whether it is approved, and --yes was not given")]
    NobodyToAsk,
    /// Key or trust.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl ApprovingError {
    /// Next steps, one line each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Differs(_) => "`rpc approve --show FILE` shows what a proposal asks for",
            Self::Oneself(_) => "send the file to somebody whom the node's policy lets approve it",
            Self::File { verb: "write", .. } => "no file is overwritten; choose another name",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::AndFilters | Self::Differs(_) => Exit::Usage,
            _ => Exit::Local,
        }
    }
}

/// Whoever the settings say, without a connection.
pub fn person(settings: &Settings) -> Result<Person, ApprovingError> {
    let operator = settings.operator.to_string();
    Ok(Person::load(
        &settings.credentials,
        &operator,
        &settings.account,
    )?)
}

/// The bytes of a file of at most this many.
pub fn read(path: &Path, limit: usize) -> Result<Vec<u8>, ApprovingError> {
    let failed = |source| ApprovingError::File {
        verb: "read",
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > limit {
        let path = path.to_owned();
        return Err(ApprovingError::TooLarge { path, limit });
    }
    // A line end behind the envelope is an editor's, or ours.
    bytes.truncate(bytes.trim_ascii_end().len());
    Ok(bytes)
}

/// Writes a new file that only its owner can read: digests of secrets are in it.
pub fn write(path: &Path, envelope: &[u8]) -> Result<(), ApprovingError> {
    let failed = |source| ApprovingError::File {
        verb: "write",
        path: path.to_owned(),
        source,
    };
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.write_all(envelope)
        .and_then(|()| file.write_all(b"\n"))
        .map_err(failed)
}

/// An approval that was read, and how it travels.
#[derive(Debug)]
pub struct Given {
    /// The nodes that it names.
    pub nodes: BTreeSet<Identity>,
    /// The sealed approval, for the request.
    pub text: String,
}

/// The approval in this file, if it is one of just this request and made by another.
pub fn given(path: &Path, plan: &Plan<'_>, settings: &Settings) -> Result<Given, ApprovingError> {
    let person = person(settings)?;
    let bytes = read(path, limits::APPROVAL_BYTES)?;
    let void = |source| ApprovingError::Void {
        path: path.to_owned(),
        source,
    };
    let (approved, text) = person.read_approval(&bytes).map_err(void)?;
    approved
        .proposed
        .in_time(crate::clock::now())
        .map_err(void)?;
    same(&approved, plan, &person)?;
    Ok(Given {
        nodes: approved.proposed.proposal.nodes,
        text,
    })
}

/// The nodes would refuse what differs; it is told before they are asked.
fn same(approved: &Approved, plan: &Plan<'_>, person: &Person) -> Result<(), ApprovingError> {
    let proposal = &approved.proposed.proposal;
    let is_secret = |name: &str| plan.action.is_sensitive(name);
    let inputs = proposal.inputs.are(proposal.id, &plan.data, is_secret);
    let same = [
        (
            "caller",
            approved.proposed.caller.key == person.signer.public(),
        ),
        ("agent", proposal.agent.as_str() == plan.ddl.name()),
        ("action", proposal.action.as_str() == plan.action.name()),
        ("value of an input", inputs),
    ];
    match same.into_iter().find(|(_, same)| !same) {
        Some((field, _)) => Err(ApprovingError::Differs(field)),
        None => Ok(()),
    }
}
