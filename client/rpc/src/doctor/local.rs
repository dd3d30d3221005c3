//! Checks local files: configuration, credentials, trust. Sends no requests.

use std::fs;
use std::path::Path;

use muster_base::format_utc;
use muster_request::RpcSettings;
use muster_secret::SecretOwner;
use muster_wire::Millis;
use muster_wire::token::{AccountTrust, PublicKey, UserCredentials, UserRole, VerifiedUser};

use super::{DiagnosisFinding, DiagnosisSection};

/// Time before expiry from which credentials are reported, in milliseconds.
const EXPIRY_WARNING_MS: Millis = 7 * 24 * 60 * 60 * 1000;
/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Checks every file that the settings name.
pub fn local_section(settings: &RpcSettings, now: Millis) -> DiagnosisSection {
    let mut findings = vec![configuration_finding(settings)];
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

fn configuration_finding(settings: &RpcSettings) -> DiagnosisFinding {
    DiagnosisFinding::ok("configuration", settings.file.display().to_string())
}

fn load_credentials(path: &Path) -> Result<UserCredentials, DiagnosisFinding> {
    let invalid = |message: String| DiagnosisFinding::error("credentials", message);
    let shown = path.display();
    let text =
        muster_secret::read_secret(path, SecretOwner::Person, UserCredentials::MAX_FILE_BYTES)
            .map_err(|error| {
                let missing = error.is_missing();
                let finding = invalid(error.to_string());
                if missing {
                    return finding.with_advice(
                        "create some with `rpc org add user NAME --bundle ~/.config/muster`",
                    );
                }
                finding
            })?;
    UserCredentials::parse(&text).map_err(|error| invalid(format!("{shown}: {error}")))
}

fn load_trust(path: &Path, operator: PublicKey) -> Result<AccountTrust, DiagnosisFinding> {
    let invalid = |message: String| DiagnosisFinding::error("trust", message);
    let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
    let text = read_limited(path, length).map_err(invalid)?;
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
            let message = format!("{name}, expires {expiry}");
            if at.saturating_sub(now) < EXPIRY_WARNING_MS {
                return DiagnosisFinding::warning("credentials", message)
                    .with_advice("issue new credentials with `rpc org add user`");
            }
            DiagnosisFinding::ok("credentials", message)
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

fn read_limited(path: &Path, length: u64) -> Result<String, String> {
    let shown = path.display();
    if length > MAX_FILE_BYTES {
        return Err(format!("{shown} has {length} bytes, too many for an account token"));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))
}
