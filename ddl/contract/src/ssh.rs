//! The agents `ssh`, which decides logins with certificates, and `ssh_ca`, which signs certificates.

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default path of the socket on which the daemon decides logins.
pub const LOGIN_SOCKET_PATH: &str = "/run/muster/logins.sock";

/// Decides logins with SSH certificates; its policy says who may log in as which user.
#[derive(Debug, JsonSchema)]
pub struct SshAgent;

impl AgentContract for SshAgent {
    const NAME: &'static str = "ssh";
    const TIMEOUT: u64 = 10;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<SshLogin>();
    }
}

/// Check whether the caller may log in as a user of the node. Each login with a certificate is decided by the policy for this action. A request opens no session.
#[derive(Debug, JsonSchema)]
pub struct SshLogin;

impl Action for SshLogin {
    type Agent = SshAgent;
    const NAME: &'static str = "login";
    type Input = SshLoginInput;
    type Output = SshLoginOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("ssh/login.json"))
    }
}

/// Inputs of `login`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SshLoginInput {
    /// The user of the node.
    #[schemars(length(max = 32), regex(pattern = r"\A[A-Za-z0-9._$@\\][A-Za-z0-9._$@\\-]*\z"))]
    pub user: String,
}

/// Outputs of `login`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SshLoginOutput {
    /// The user of the node.
    pub user: String,
    /// The principal that the certificate must have: the name of the caller.
    pub principal: String,
}

/// Signs SSH user certificates for callers.
#[derive(Debug, JsonSchema)]
pub struct SshCaAgent;

impl AgentContract for SshCaAgent {
    const NAME: &'static str = "ssh_ca";
    const TIMEOUT: u64 = 10;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<SshSign>();
    }
}

/// Sign a certificate for the caller, whose name is its only principal.
#[derive(Debug, JsonSchema)]
pub struct SshSign;

impl Action for SshSign {
    type Agent = SshCaAgent;
    const NAME: &'static str = "sign";
    type Input = SshSignInput;
    type Output = SshSignOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().examples(include_str!("ssh/sign.json"))
    }
}

/// Inputs of `sign`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SshSignInput {
    /// The caller's public SSH key, a line of a .pub file; an ed25519 key.
    #[schemars(
        title = "Public key",
        length(max = 2048),
        regex(
            pattern = r"\A(ssh-ed25519|sk-ssh-ed25519@openssh\.com) [A-Za-z0-9+/=]+( [ -~]*)?\z"
        )
    )]
    pub public_key: String,
    /// How long the certificate is valid, in seconds; by default `lifetime_seconds` of [plugins.ssh_ca]. It never outlives the token of the caller.
    #[expect(clippy::doc_markdown, reason = "callers see this text without markup")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<u64>,
}

/// Outputs of `sign`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SshSignOutput {
    /// The certificate, a line of a -cert.pub file.
    pub certificate: String,
    /// The key id, which sshd logs: caller, user key, issue time of the token, request.
    #[schemars(title = "Key id")]
    pub key_id: String,
    /// The serial number.
    pub serial: String,
    /// When the certificate expires.
    #[schemars(title = "Valid until")]
    pub valid_until: String,
}
