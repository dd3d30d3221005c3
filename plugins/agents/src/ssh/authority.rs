//! The agent `ssh_ca`: signs certificates for callers. The node's policy says who gets one; lifetime and features are those of the configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::base::{format_rfc3339, unix_millis_now};
use muster_api::ddl::AgentContract as _;
use muster_api::{
    ActionError, Agent, AgentError, BlockingContext, CallSender, DaemonContext, NodePlugin,
    PluginError, PluginResult, WorkEnd,
};
use muster_contract::ssh::{SshCaAgent, SshSign, SshSignInput, SshSignOutput};
use muster_contract::write_values;
use muster_files::{SecretFileError, SecretOwner, read_secret};
use muster_sshcert::{
    CertificateKeyId, CertificateSpec, GrantedFeatures, SubjectKey, issue_certificate,
};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::{KeyError, KeyKind, KeyPair, Seconds, UserRole};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// Largest file of the key, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 1024;
/// Longest lifetime that can be configured, in seconds: 24 hours.
const MAX_LIFETIME_SECONDS: Seconds = 24 * 60 * 60;
/// Shortest lifetime of a certificate, in seconds.
const MIN_LIFETIME_SECONDS: Seconds = 60;

/// The table `plugins.ssh_ca` of the daemon's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthorityOptions {
    /// The authority's key, `keys/ssh-ca.nk` of the organisation. The agent exists only with it.
    pub key: Option<PathBuf>,
    /// Lifetime of certificates in seconds, unless the caller asks for another one.
    pub lifetime_seconds: Seconds,
    /// Longest lifetime that a caller can ask for, in seconds; at most 24 hours.
    pub max_lifetime_seconds: Seconds,
    /// Whether certificates permit forwarded ports.
    pub port_forwarding: bool,
    /// Whether certificates permit a forwarded ssh-agent.
    pub agent_forwarding: bool,
}

impl Default for AuthorityOptions {
    fn default() -> Self {
        Self {
            key: None,
            lifetime_seconds: 8 * 60 * 60,
            max_lifetime_seconds: MAX_LIFETIME_SECONDS,
            port_forwarding: false,
            agent_forwarding: false,
        }
    }
}

/// Why an option is refused, or the key cannot be used.
#[derive(Debug, thiserror::Error)]
enum AuthorityError {
    #[error("the lifetime is {found} seconds; use {MIN_LIFETIME_SECONDS} to {limit}")]
    Lifetime { found: Seconds, limit: Seconds },
    #[error(transparent)]
    File(#[from] SecretFileError),
    #[error("{} is no key of an organisation", path.display())]
    Key { path: PathBuf, source: KeyError },
}

/// Why a certificate is not planned.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum SignRefusal {
    #[error("certificates are signed for callers only, and the request is of the role {0}")]
    Role(&'static str),
    #[error("the lifetime is {found} seconds; use {MIN_LIFETIME_SECONDS} to {limit}")]
    Lifetime { found: Seconds, limit: Seconds },
    #[error("the token of the caller expires in less than {MIN_LIFETIME_SECONDS} seconds")]
    TokenEnds,
}

/// The agent `ssh_ca`.
#[derive(Debug, Clone)]
pub struct SshCaPlugin {
    options: Arc<AuthorityOptions>,
}

impl NodePlugin for SshCaPlugin {
    const NAME: &'static str = SshCaAgent::NAME;
    type Options = AuthorityOptions;
    type Shared = ();

    fn configure(options: AuthorityOptions, _: &DaemonContext, (): ()) -> PluginResult<Self> {
        let invalid = |option, error: AuthorityError| PluginError::Option {
            plugin: SshCaAgent::NAME,
            option,
            source: error.into(),
        };
        check_lifetime(options.max_lifetime_seconds, MAX_LIFETIME_SECONDS)
            .map_err(|error| invalid("max_lifetime_seconds", error))?;
        check_lifetime(options.lifetime_seconds, options.max_lifetime_seconds)
            .map_err(|error| invalid("lifetime_seconds", error))?;
        if let Some(key) = &options.key {
            read_key(key).map_err(|error| invalid("key", error))?;
        }
        Ok(Self { options: Arc::new(options) })
    }

    fn is_enabled(&self) -> bool {
        self.options.key.is_some()
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        Agent::builder_for::<SshCaAgent>()?
            .blocking_action(SshSign, &self.options, sign_certificate)
            .build()
    }
}

fn check_lifetime(found: Seconds, limit: Seconds) -> Result<(), AuthorityError> {
    if (MIN_LIFETIME_SECONDS..=limit).contains(&found) {
        return Ok(());
    }
    Err(AuthorityError::Lifetime { found, limit })
}

fn read_key(path: &Path) -> Result<KeyPair, AuthorityError> {
    let seed = read_secret(path, SecretOwner::Daemon, MAX_KEY_FILE_BYTES)?;
    KeyPair::from_seed(seed.trim())
        .and_then(|pair| pair.public_key().expect_kind(KeyKind::Account).map(|_| pair))
        .map_err(|source| AuthorityError::Key { path: path.to_owned(), source })
}

/// Signs a certificate, and records its key id and serial number. The key is read each time, so that a rotation needs no restart.
fn sign_certificate(
    options: &Arc<AuthorityOptions>,
    cx: &BlockingContext,
    input: SshSignInput,
) -> Result<SshSignOutput, ActionError> {
    let SshSignInput { public_key, lifetime } = input;
    let sender = cx.sender.as_ref();
    let sender =
        sender.ok_or_else(|| ActionError::internal_error("the request has no verified sender"))?;
    let subject = SubjectKey::parse(&public_key)
        .map_err(|error| ActionError::invalid_input(muster_api::base::error_chain(&error)))?;
    let asked = AskedCertificate { caller: &cx.caller, request: cx.request, subject, lifetime };
    let spec = plan_certificate(options, sender, asked, unix_millis_now()).map_err(|refusal| {
        let message = refusal.to_string();
        match refusal {
            SignRefusal::Role(_) => ActionError::denied_by_rule(message, "ssh_ca: callers only"),
            _ => ActionError::invalid_input(message),
        }
    })?;
    let path = options.key.as_deref().unwrap_or(Path::new(""));
    let authority = read_key(path).map_err(ActionError::from_cause)?;
    let key_id = spec.key_id.to_string();
    let issued = issue_certificate(&authority, spec).map_err(ActionError::from_cause)?;
    let output = SshSignOutput {
        certificate: issued.text,
        key_id,
        serial: issued.serial.to_string(),
        valid_until: format_rfc3339(issued.expires.saturating_mul(1000)),
    };
    let mut record = write_values(&output);
    record.remove("certificate");
    record.insert("authority".to_owned(), json!(authority.public_key().to_string()));
    let end = WorkEnd { data: record, reason: "signed", took: std::time::Duration::ZERO };
    cx.node.record_work_end(cx, &end);
    Ok(output)
}

/// What a caller asks for.
struct AskedCertificate<'a> {
    caller: &'a Identity,
    request: Uuid,
    subject: SubjectKey,
    lifetime: Option<u64>,
}

/// The certificate for a request at this time.
fn plan_certificate(
    options: &AuthorityOptions,
    sender: &CallSender,
    asked: AskedCertificate<'_>,
    now: Millis,
) -> Result<CertificateSpec, SignRefusal> {
    if sender.role != UserRole::Caller {
        return Err(SignRefusal::Role(sender.role.as_str()));
    }
    let lifetime = asked.lifetime.unwrap_or(options.lifetime_seconds);
    let limit = options.max_lifetime_seconds;
    if !(MIN_LIFETIME_SECONDS..=limit).contains(&lifetime) {
        return Err(SignRefusal::Lifetime { found: lifetime, limit });
    }
    let issued_at = now / 1000;
    let wanted = issued_at.saturating_add(lifetime);
    let expires = sender.token_expires.map_or(wanted, |end| wanted.min(end / 1000));
    if expires < issued_at.saturating_add(MIN_LIFETIME_SECONDS) {
        return Err(SignRefusal::TokenEnds);
    }
    let key_id = CertificateKeyId {
        caller: asked.caller.clone(),
        key: sender.key,
        token_issued_at: sender.token_issued_at / 1000,
        request: asked.request,
    };
    let features = GrantedFeatures {
        pty: true,
        port_forwarding: options.port_forwarding,
        agent_forwarding: options.agent_forwarding,
    };
    Ok(CertificateSpec { subject: asked.subject, key_id, issued_at, expires, features })
}

#[cfg(test)]
mod tests {
    use muster_sshcert::SshUserKey;
    use muster_wire::identity::SubjectName;
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    const NOW: Millis = 1_764_000_000_000;

    fn sender(role: UserRole, expires: Option<Millis>) -> CallSender {
        CallSender {
            rights: Vec::new(),
            key: KeyPair::from_raw(KeyKind::User, &[1; 32]).public_key(),
            role,
            collective: SubjectName::parse("muster").unwrap(),
            token_issued_at: NOW - 5_000,
            token_expires: expires,
        }
    }

    fn plan(
        options: &AuthorityOptions,
        sender: &CallSender,
        lifetime: Option<u64>,
    ) -> Result<CertificateSpec, SignRefusal> {
        let caller = Identity::parse("rip").unwrap();
        let subject = SshUserKey::generate("x").unwrap().subject();
        let request = Uuid::from_u128(1);
        let asked = AskedCertificate { caller: &caller, request, subject, lifetime };
        plan_certificate(options, sender, asked, NOW)
    }

    #[test]
    fn only_callers_get_certificates() {
        let options = AuthorityOptions::default();
        for role in [UserRole::Node, UserRole::Service, UserRole::Newcomer] {
            let refused = plan(&options, &sender(role, None), None).unwrap_err();
            assert_eq!(refused, SignRefusal::Role(role.as_str()));
        }
        let spec = plan(&options, &sender(UserRole::Caller, None), None).unwrap();
        assert_eq!(spec.expires - spec.issued_at, 8 * 3600);
        assert_eq!(spec.features, GrantedFeatures { pty: true, ..GrantedFeatures::default() });
        assert_eq!(spec.key_id.token_issued_at, NOW / 1000 - 5);
    }

    proptest! {
        #[test]
        fn certificate_outlives_neither_the_limit_nor_the_token(
            lifetime in proptest::option::of(0_u64..200_000),
            left in proptest::option::of(0_u64..200_000),
        ) {
            let options = AuthorityOptions::default();
            let sender = sender(UserRole::Caller, left.map(|left| NOW + left * 1000));
            if let Ok(spec) = plan(&options, &sender, lifetime) {
                let lasts = spec.expires - spec.issued_at;
                prop_assert!((60..=86_400).contains(&lasts));
                prop_assert!(lasts <= lifetime.unwrap_or(28_800));
                prop_assert!(left.is_none_or(|left| lasts <= left));
            } else {
                prop_assert!(
                    lifetime.is_some_and(|asked| !(60..=86_400).contains(&asked))
                        || left.is_some_and(|left| left < 60)
                );
            }
        }
    }

    #[test]
    fn key_file_is_checked_and_lifetimes_are_bounded() {
        let daemon = DaemonContext::default();
        let configure = |options| SshCaPlugin::configure(options, &daemon, ());
        let disabled = configure(SshCaPlugin::parse_options(Map::new()).unwrap()).unwrap();
        assert!(disabled.agents().unwrap().is_empty());
        for (lifetime_seconds, max_lifetime_seconds) in [(59, 3600), (3601, 3600), (60, 86_401)] {
            let options = AuthorityOptions {
                lifetime_seconds,
                max_lifetime_seconds,
                ..AuthorityOptions::default()
            };
            assert!(configure(options).is_err());
        }
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("ssh-ca.nk");
        let options = AuthorityOptions { key: Some(key.clone()), ..AuthorityOptions::default() };
        assert!(configure(options.clone()).is_err(), "the file is missing");
        let seed = KeyPair::from_raw(KeyKind::Account, &[3; 32]).seed_text();
        muster_files::files::create_secret(&key, seed.as_bytes()).unwrap();
        assert_eq!(configure(options).unwrap().agents().unwrap().len(), 1);
    }
}
