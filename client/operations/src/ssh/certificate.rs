//! The caller's own SSH key and its certificate: both are kept in the cache of the fleet, and a new certificate is asked for when the present one ends soon.
//!
//! The private key never leaves the directory. A certificate that this caller, this key and the account token do not fit is replaced.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_base::{NodeText, unix_millis_now};
use muster_calls::{CallEvent, CallTarget, ClientError, DiscoverySource, RpcCall};
use muster_client::{
    FleetConnection, FleetRequestError, TargetSelection, read_cache_file, replace_cache_file,
};
use muster_contract::ssh::{SshCaAgent, SshSign, SshSignInput};
use muster_ddl::{Action as _, AgentContract as _};
use muster_files::files::{self, FileAccessError};
use muster_filter::{FilterError, NodeFilter};
use muster_sshcert::{
    CertificateError, MAX_CERTIFICATE_BYTES, SshUserKey, SubjectKeyError, UserCertificate,
};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;
use muster_wire::token::Seconds;

/// A certificate that is valid for less than this is replaced, in seconds.
const MIN_VALIDITY_SECONDS: Seconds = 5 * 60;
/// Largest file of a private key, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 4096;
/// Time limit of the action.
const SIGN_TIMEOUT: Duration = Duration::from_secs(10);
/// Most hosts that are asked, one after the other.
const MAX_ASKED_HOSTS: usize = 3;

/// The files of a key and its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshIdentity {
    /// The private key.
    pub key: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum SshCertificateError {
    /// The account token lists no authority.
    #[error("this fleet has no SSH authority")]
    NoAuthority,
    /// No node has the agent.
    #[error(
        "no node with the agent {} was found, so no certificate can be signed",
        SshCaAgent::NAME
    )]
    NoSigner,
    /// The policy of the host refuses.
    #[error("{node} signs no certificate for this caller: {}", message.block())]
    Denied {
        /// The host.
        node: Identity,
        /// Its message.
        message: NodeText,
    },
    /// The host failed.
    #[error("{node} did not sign a certificate: {}", message.block())]
    Failed {
        /// The host.
        node: Identity,
        /// Its message.
        message: NodeText,
    },
    /// No host replied.
    #[error("{0} did not reply with a certificate")]
    Silent(Identity),
    /// The reply cannot be read.
    #[error("{node} replied with values that are not those of the action {}", SshSign::NAME)]
    Reply {
        /// The host.
        node: Identity,
        /// The error.
        source: serde_json::Error,
    },
    /// The certificate is not one for this caller and key.
    #[error("{node} replied with a certificate that nodes would refuse")]
    Unusable {
        /// The host.
        node: Identity,
        /// The error.
        source: CertificateError,
    },
    /// The certificate is for another caller or key.
    #[error("{0} replied with a certificate for another caller or key")]
    Foreign(Identity),
    /// The own key cannot be used.
    #[error("the key {} cannot be used; remove it to get a new one", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The error.
        source: SubjectKeyError,
    },
    /// A file cannot be read or written.
    #[error("cannot use the files of the SSH key")]
    File(#[from] FileAccessError),
    /// The hosts could not be looked for.
    #[error(transparent)]
    Discovery(#[from] FleetRequestError),
    /// The request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The name of the agent is not valid.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// The caller's key and a certificate that is valid for five more minutes at least, in this directory.
pub async fn prepare_ssh_identity(
    fleet: &FleetConnection,
    directory: &Path,
) -> Result<SshIdentity, SshCertificateError> {
    if fleet.client.trust().ssh_authorities().is_empty() {
        return Err(SshCertificateError::NoAuthority);
    }
    let identity = SshIdentity {
        key: directory.join("id_ed25519"),
        certificate: directory.join("id_ed25519-cert.pub"),
    };
    let key = load_or_create_key(&identity.key, fleet.client.identity())?;
    if has_valid_certificate(fleet, &identity.certificate, &key) {
        return Ok(identity);
    }
    let public_key = key
        .public_text()
        .map_err(|source| SshCertificateError::Key { path: identity.key.clone(), source })?;
    let (node, text) = ask_for_certificate(fleet, &public_key).await?;
    let certificate = UserCertificate::parse_line(&text)
        .and_then(|certificate| verify_certificate(fleet, &certificate).map(|()| certificate))
        .map_err(|source| SshCertificateError::Unusable { node: node.clone(), source })?;
    if !is_own(fleet, &certificate, &key) {
        return Err(SshCertificateError::Foreign(node));
    }
    replace_cache_file(&identity.certificate, format!("{text}\n").as_bytes())?;
    Ok(identity)
}

fn verify_certificate(
    fleet: &FleetConnection,
    certificate: &UserCertificate,
) -> Result<(), CertificateError> {
    certificate.verify(fleet.client.trust().ssh_authorities(), unix_millis_now() / 1000)
}

fn is_own(fleet: &FleetConnection, certificate: &UserCertificate, key: &SshUserKey) -> bool {
    let key_id = certificate.key_id();
    key_id.caller == *fleet.client.identity()
        && key_id.key == fleet.client.key()
        && certificate.is_for(&key.subject())
}

fn has_valid_certificate(fleet: &FleetConnection, path: &Path, key: &SshUserKey) -> bool {
    let Some(bytes) = read_cache_file(path, MAX_CERTIFICATE_BYTES) else { return false };
    let certificate = UserCertificate::parse_line(&String::from_utf8_lossy(&bytes));
    certificate.is_ok_and(|certificate| {
        let until = unix_millis_now() / 1000 + MIN_VALIDITY_SECONDS;
        is_own(fleet, &certificate, key)
            && certificate.expires() > until
            && verify_certificate(fleet, &certificate).is_ok()
    })
}

/// Asks hosts with the agent, one after the other, until one signs.
async fn ask_for_certificate(
    fleet: &FleetConnection,
    public_key: &str,
) -> Result<(Identity, String), SshCertificateError> {
    let hosts = find_hosts(fleet).await?;
    let mut last_error = SshCertificateError::NoSigner;
    for node in hosts.into_iter().take(MAX_ASKED_HOSTS) {
        match ask_host(fleet, &node, public_key).await {
            Ok(certificate) => return Ok((node, certificate)),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

async fn find_hosts(fleet: &FleetConnection) -> Result<BTreeSet<Identity>, SshCertificateError> {
    let filter = NodeFilter::default().with_agent(SshCaAgent::NAME)?;
    let target = TargetSelection::from_filter(filter, None);
    let target = target.with_source(DiscoverySource::Automatic);
    let found = fleet.locate(&target, &()).await?.nodes;
    if !found.is_empty() {
        return Ok(found);
    }
    // A new host is not yet registered.
    let target = target.with_source(DiscoverySource::Broadcast);
    Ok(fleet.locate(&target, &()).await?.nodes)
}

async fn ask_host(
    fleet: &FleetConnection,
    node: &Identity,
    public_key: &str,
) -> Result<String, SshCertificateError> {
    let input = SshSignInput { public_key: public_key.to_owned(), lifetime: None };
    let target = CallTarget::Nodes(BTreeSet::from([node.clone()]));
    let call = RpcCall::of_action::<SshSign>(&input, target).map_err(ClientError::from)?;
    let (timeout, wait) = (Some(SIGN_TIMEOUT), SIGN_TIMEOUT + fleet.listen);
    let mut events = fleet.client.call(RpcCall { timeout, wait, ..call });
    let node = node.clone();
    while let Some(event) = events.next().await {
        let received = match event {
            CallEvent::Reply(received) => received,
            CallEvent::Failed(error) => return Err(error.into()),
            _ => continue,
        };
        if received.is_ok() {
            let output = received.read_outputs::<SshSign>();
            let output = output.map_err(|source| SshCertificateError::Reply { node, source })?;
            return Ok(output.certificate);
        }
        let message = received.reply.statusmsg;
        return Err(match received.reply.reason {
            Some(ReplyReason::Denied { .. }) => SshCertificateError::Denied { node, message },
            _ => SshCertificateError::Failed { node, message },
        });
    }
    Err(SshCertificateError::Silent(node))
}

/// The key in this file. Another process may create it at the same time; both then use the same one.
fn load_or_create_key(path: &Path, caller: &Identity) -> Result<SshUserKey, SshCertificateError> {
    let unusable = |source| SshCertificateError::Key { path: path.to_owned(), source };
    if !path.exists() {
        if let Some(directory) = path.parent() {
            files::create_private_directory(directory)?;
        }
        let key = SshUserKey::generate(caller.as_str()).map_err(unusable)?;
        let created = files::create_secret(path, key.private_text().map_err(unusable)?.as_bytes());
        if created.is_ok() {
            return Ok(key);
        }
    }
    let text = files::read_secret(path, MAX_KEY_FILE_BYTES)?;
    SshUserKey::parse(&text).map_err(unusable)
}
