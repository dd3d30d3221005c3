//! Decides logins with SSH certificates: answers `rpcd ssh-principals` on a socket that only root can open, and writes the file of trusted authorities for sshd.
//!
//! A login is accepted if an authority of the account token signed the certificate, it is valid now, the caller's key is not revoked, and the policy for
//! `ssh login` permits the user. Each decision about a verified certificate is recorded. Data sources are unknown to the policy here.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_agents::ssh::LoginOptions;
use muster_api::FindingLevel;
use muster_api::base::error_chain;
use muster_contract::ssh::{SshAgent, SshLogin};
use muster_ddl::{Action as _, AgentContract as _};
use muster_files::bind_socket;
use muster_files::replace_file;
use muster_filter::KnownLookups;
use muster_node::core::DaemonCore;
use muster_node::core::audit::{AuditRecord, AuditVerdict, RecordClass};
use muster_policy::{PolicyPrincipal, PolicyQuery};
use muster_sshcert::{
    LoginAnswer, LoginQuery, MAX_LOGIN_MESSAGE_BYTES, UserCertificate, authority_lines,
    is_user_name,
};
use muster_wire::identity::{NameError, SubjectName};
use muster_wire::status::ReplyStatus;
use muster_wire::token::UserRole;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Time limit of one query, from its connection to its answer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Queries that are answered at once. sshd limits connections before authentication to 10 to 100 by default.
const MAX_CONCURRENT_QUERIES: usize = 32;
/// Interval at which the file of authorities is compared with the account token.
const AUTHORITIES_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which the socket is bound again after an error.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after an error of the listener, such as a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Reason in the audit log for certificates that are not verified.
const INVALID_CERTIFICATE: &str = "ssh_certificate";

#[derive(Debug, thiserror::Error)]
enum LoginRefusal {
    #[error("the daemon cannot read the query; rpcd ssh-principals may be of another version")]
    Query,
    #[error("{0:?} is not a user name that a policy can name")]
    User(String),
    #[error("{0}")]
    Certificate(String),
    #[error("the account token was not confirmed for too long, so revocations may be missing")]
    StaleTrust,
    #[error("the key of the caller is revoked")]
    Revoked,
    #[error("denied by {0}")]
    Denied(String),
    #[error("the login needs an approval, which logins cannot have: {0}")]
    Approval(String),
    #[error("the decision cannot be recorded in the audit log")]
    Audit,
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Starts to serve, if the node accepts logins with certificates.
pub(crate) fn spawn_logins(
    core: &Arc<DaemonCore>,
    options: Option<LoginOptions>,
) -> Option<JoinHandle<()>> {
    options.map(|options| tokio::spawn(serve_logins(Arc::clone(core), options)))
}

async fn serve_logins(core: Arc<DaemonCore>, options: LoginOptions) {
    let answering = async {
        let listener = bind_until_open(&core, &options.socket).await;
        answer_queries(Arc::clone(&core), listener).await;
    };
    tokio::join!(answering, write_authorities(Arc::clone(&core), &options.authorities));
}

/// Binds the socket, and retries after an error.
async fn bind_until_open(core: &DaemonCore, path: &Path) -> UnixListener {
    loop {
        let opened = open_socket(path);
        let describe = |error: &io::Error| {
            let path = path.display();
            format!("cannot open the socket {path}, so sshd refuses certificates: {error}")
        };
        report_problem(core, "ssh logins", opened.as_ref().err().map(describe));
        if let Ok(listener) = opened {
            return listener;
        }
        tokio::time::sleep(BIND_RETRY_INTERVAL).await;
    }
}

fn open_socket(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    }
    UnixListener::from_std(bind_socket(path, None)?)
}

async fn answer_queries(core: Arc<DaemonCore>, listener: UnixListener) {
    let places = Arc::new(Semaphore::new(MAX_CONCURRENT_QUERIES));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a query about a login");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let core = Arc::clone(&core);
        tokio::spawn(async move {
            let answered = tokio::time::timeout(QUERY_TIMEOUT, answer_query(&core, stream));
            if let Ok(Err(error)) = answered.await {
                tracing::debug!(%error, "a query about a login was not answered");
            }
            drop(place);
        });
    }
}

async fn answer_query(core: &DaemonCore, mut stream: UnixStream) -> io::Result<()> {
    let limit = u64::try_from(MAX_LOGIN_MESSAGE_BYTES).unwrap_or(u64::MAX);
    let mut received = Vec::new();
    (&mut stream).take(limit).read_to_end(&mut received).await?;
    let decided = serde_json::from_slice::<LoginQuery>(&received)
        .map_err(|_| LoginRefusal::Query)
        .and_then(|query| decide_login(core, &query));
    let answer = match decided {
        Ok(principal) => LoginAnswer::Principal(principal),
        Err(refusal) => {
            tracing::info!("refused a login with a certificate: {refusal}");
            LoginAnswer::Refused(refusal.to_string())
        }
    };
    stream.write_all(&serde_json::to_vec(&answer)?).await?;
    stream.shutdown().await
}

/// Returns the accepted principal.
fn decide_login(core: &DaemonCore, query: &LoginQuery) -> Result<String, LoginRefusal> {
    if !is_user_name(&query.user) {
        return Err(LoginRefusal::User(query.user.clone()));
    }
    let (trust, now) = (core.trust.account.get(), core.now());
    let refuse = |error: &dyn std::error::Error, claimed: Option<&str>| {
        core.journals.audit.count_refusal(INVALID_CERTIFICATE, claimed);
        LoginRefusal::Certificate(error_chain(error))
    };
    let certificate = UserCertificate::parse_base64(&query.certificate);
    let certificate = certificate.map_err(|error| refuse(&error, None))?;
    let key_id = certificate.key_id();
    certificate
        .verify(trust.ssh_authorities(), now / 1000)
        .map_err(|error| refuse(&error, Some(key_id.caller.as_str())))?;
    if core.trust.freshness.expired_age(now).is_some() {
        return refuse_recorded(core, query, &certificate, LoginRefusal::StaleTrust);
    }
    if trust.is_revoked(&key_id.key, key_id.token_issued_at) {
        return refuse_recorded(core, query, &certificate, LoginRefusal::Revoked);
    }
    let (agent, action) =
        (SubjectName::parse(SshAgent::NAME)?, SubjectName::parse(SshLogin::NAME)?);
    let caller = PolicyPrincipal::from_caller(key_id.caller.clone());
    let inputs = Map::from_iter([("user".to_owned(), Value::from(query.user.as_str()))]);
    let decision = core.with_node_view(|node| {
        let (agent, action, inputs) = (&agent, &action, Some(&inputs));
        let policy_query = PolicyQuery { caller: &caller, agent, action, node, inputs, now };
        core.offer.policy.get().decide_query(&policy_query, &KnownLookups::default())
    });
    if !decision.allowed {
        core.counters.denied.increment();
        return refuse_recorded(core, query, &certificate, LoginRefusal::Denied(decision.rule));
    }
    if decision.approved_by.is_some() {
        return refuse_recorded(core, query, &certificate, LoginRefusal::Approval(decision.rule));
    }
    let record = AuditRecord {
        rule: Some(decision.rule),
        status: Some(ReplyStatus::Ok),
        ..new_record(core, query, &certificate, AuditVerdict::Executed, RecordClass::Change)?
    };
    core.journals.audit.record_decision(&record).map_err(|error| {
        tracing::error!(%error, "cannot record a login");
        LoginRefusal::Audit
    })?;
    Ok(key_id.caller.to_string())
}

fn refuse_recorded(
    core: &DaemonCore,
    query: &LoginQuery,
    certificate: &UserCertificate,
    refusal: LoginRefusal,
) -> Result<String, LoginRefusal> {
    let (rule, reason) = match &refusal {
        LoginRefusal::Denied(rule) => (Some(rule.clone()), "denied"),
        LoginRefusal::Approval(rule) => (Some(rule.clone()), "approval"),
        LoginRefusal::Revoked => (None, "revoked"),
        _ => (None, "stale_trust"),
    };
    let verdict = if rule.is_some() { AuditVerdict::Denied } else { AuditVerdict::Refused };
    let record = AuditRecord {
        rule,
        reason: Some(reason),
        status: Some(ReplyStatus::Other),
        ..new_record(core, query, certificate, verdict, RecordClass::Refusal)?
    };
    if let Err(error) = core.journals.audit.record_decision(&record) {
        tracing::error!(%error, "cannot record a refused login");
    }
    Err(refusal)
}

/// A record of the request that asked for the certificate, so that both have the same id.
fn new_record(
    core: &DaemonCore,
    query: &LoginQuery,
    certificate: &UserCertificate,
    verdict: AuditVerdict,
    class: RecordClass,
) -> Result<AuditRecord, LoginRefusal> {
    let key_id = certificate.key_id();
    let mut data = Map::new();
    data.insert("user".to_owned(), json!(query.user));
    data.insert("key_id".to_owned(), json!(key_id.to_string()));
    data.insert("serial".to_owned(), json!(certificate.serial().to_string()));
    if let Some(source) = query.source {
        data.insert("source".to_owned(), json!(source.to_string()));
    }
    let collective = core.node.collectives.first().cloned();
    Ok(AuditRecord {
        class,
        time: core.now(),
        verdict,
        request: key_id.request,
        caller: key_id.caller.clone(),
        caller_key: Some(key_id.key.to_string()),
        caller_role: UserRole::Caller,
        collective: collective.map_or_else(|| SubjectName::parse("muster"), Ok)?,
        agent: SubjectName::parse(SshAgent::NAME)?,
        action: SubjectName::parse(SshLogin::NAME)?,
        traceparent: None,
        data,
        rule: None,
        approval: None,
        schedule: None,
        status: None,
        reason: None,
        took_ms: None,
    })
}

/// Writes the file of authorities each time the account token lists others.
async fn write_authorities(core: Arc<DaemonCore>, path: &Path) {
    let mut written = None;
    loop {
        let authorities = core.trust.account.get().ssh_authorities().to_vec();
        if written.as_ref() != Some(&authorities) {
            let (target, keys) = (path.to_owned(), authorities.clone());
            let result = tokio::task::spawn_blocking(move || write_file(&target, &keys)).await;
            let result = result.map_err(io::Error::other).flatten();
            let describe = |error: &io::Error| {
                format!("cannot write {}, which sshd reads: {error}", path.display())
            };
            report_problem(&core, "ssh authorities", result.as_ref().err().map(describe));
            written = result.is_ok().then_some(authorities);
        }
        tokio::time::sleep(AUTHORITIES_INTERVAL).await;
    }
}

/// Logs a problem once, and keeps it among the findings until it is gone.
fn report_problem(core: &DaemonCore, source: &'static str, problem: Option<String>) {
    if core.health.set_findings(source, FindingLevel::Error, problem.as_slice())
        && let Some(problem) = problem
    {
        tracing::error!("{problem}");
    }
}

/// Replaces the file if its text differs.
fn write_file(path: &Path, authorities: &[muster_wire::token::PublicKey]) -> io::Result<()> {
    let text = authority_lines(authorities).map_err(io::Error::other)?;
    if std::fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    }
    replace_file(path, text.as_bytes(), 0o644)
}
