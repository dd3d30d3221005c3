//! Checks local files: configuration, credentials, trust. Sends no requests.

use std::path::Path;

use muster_base::{error_chain, format_utc};
use muster_client::RpcSettings;
use muster_files::SecretOwner;
use muster_files::files::read_text;
use muster_wire::Millis;
use muster_wire::token::{AccountTrust, PublicKey, UserCredentials, UserRole, VerifiedUser};

use super::finding::{DiagnosisFinding, DiagnosisSection};

/// Time before expiry from which credentials are reported, in milliseconds.
const EXPIRY_WARNING_MS: Millis = 7 * 24 * 60 * 60 * 1000;
/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Checks every file that the settings name.
pub fn check_local_files(settings: &RpcSettings, now: Millis) -> DiagnosisSection {
    let configuration = settings.file.display().to_string();
    let mut findings = vec![DiagnosisFinding::ok("configuration", configuration)];
    findings.extend(settings.warnings.iter().map(|warning| {
        DiagnosisFinding::warning("configuration", warning)
            .with_advice("remove the key, or correct its spelling")
    }));
    let creds = load_credentials(&settings.credentials).map_err(|finding| findings.push(finding));
    let trust =
        load_trust(&settings.account, settings.operator).map_err(|finding| findings.push(finding));
    if let (Ok(creds), Ok(trust)) = (creds, trust) {
        findings.extend(caller_findings(&creds, &trust, now));
        let issued = format_utc(trust.issued_at());
        findings.push(DiagnosisFinding::ok(
            "trust",
            format!("account token of the operator, issued {issued}"),
        ));
    }
    DiagnosisSection { about: "Local".to_owned(), is_local: true, findings }
}

fn load_credentials(path: &Path) -> Result<UserCredentials, DiagnosisFinding> {
    let invalid = |message: String| DiagnosisFinding::error("credentials", message);
    let text =
        muster_files::read_secret(path, SecretOwner::Person, UserCredentials::MAX_FILE_BYTES)
            .map_err(|error| match (invalid(error.to_string()), error.is_missing()) {
                (finding, true) => finding.with_advice(
                    "create some with `rpc org add user NAME --bundle ~/.config/muster`",
                ),
                (finding, false) => finding,
            })?;
    let shown = path.display();
    UserCredentials::parse(&text).map_err(|error| invalid(format!("{shown}: {error}")))
}

fn load_trust(path: &Path, operator: PublicKey) -> Result<AccountTrust, DiagnosisFinding> {
    let invalid = |message: String| DiagnosisFinding::error("trust", message);
    let text = read_text(path, MAX_FILE_BYTES).map_err(|error| invalid(error_chain(&error)))?;
    AccountTrust::new(operator, text.trim()).map_err(|error| {
        invalid(format!("{}: {error}", path.display()))
            .with_advice("use account.jwt and the operator's key of the same organisation")
    })
}

/// Whether nodes will accept the caller's credentials, and until when.
fn caller_findings(
    creds: &UserCredentials,
    trust: &AccountTrust,
    now: Millis,
) -> Vec<DiagnosisFinding> {
    let user = match trust.verify_user(creds.jwt(), now) {
        Ok(user) => user,
        Err(error) => {
            return vec![
                DiagnosisFinding::error(
                    "credentials",
                    format!("nodes reject the credentials: {error}"),
                )
                .with_advice(
                    "issue new ones with `rpc org add user`; a new account.jwt may be needed, too",
                ),
            ];
        }
    };
    let mut findings = vec![identity_finding(&user, now)];
    findings.extend(discovery_permission_finding(&user));
    findings
}

fn identity_finding(user: &VerifiedUser, now: Millis) -> DiagnosisFinding {
    let name = &user.identity;
    if user.role != UserRole::Caller {
        let role = user.role.as_str();
        return DiagnosisFinding::error(
            "credentials",
            format!("{name} is a {role}, and only callers can send requests"),
        )
        .with_advice("use the credentials of a user: `rpc org add user NAME`");
    }
    match user.expires {
        None => DiagnosisFinding::ok("credentials", format!("{name}, never expires")),
        Some(at) => {
            let expiry = format_utc(at / 1000);
            DiagnosisFinding::warning_if(
                at.saturating_sub(now) < EXPIRY_WARNING_MS,
                "credentials",
                format!("{name}, expires {expiry}"),
                "issue new credentials with `rpc org add user`",
            )
        }
    }
}

/// Discovery is a request to `rpcutil`, so the caller needs permission for it.
fn discovery_permission_finding(user: &VerifiedUser) -> Option<DiagnosisFinding> {
    let mut grants = user.tags.iter().filter_map(|tag| tag.strip_prefix("agent:"));
    let is_permitted =
        grants.any(|grant| grant == "*" || grant.split('.').next() == Some("rpcutil"));
    (user.role == UserRole::Caller && !is_permitted).then(|| {
        DiagnosisFinding::error(
            "permissions",
            "the credentials do not permit `rpcutil`, so discovery finds no nodes",
        )
        .with_advice("issue credentials with `--agent rpcutil` in addition")
    })
}
