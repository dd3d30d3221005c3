//! This side's files: configuration, credentials, trust. Reads them; asks nobody.

use std::fs;
use std::path::Path;

use muster_secret::Keeper;
use muster_wire::Millis;
use muster_wire::token::{Creds, PublicKey, Role, Trust, Verified};

use super::{Finding, Section};
use crate::clock;
use crate::settings::Settings;

/// Credentials that end sooner are told of, in milliseconds.
const SOON: Millis = 7 * 24 * 60 * 60 * 1000;
/// Largest file that is read, in bytes.
const FILE_BYTES: u64 = 1024 * 1024;

/// Looks at everything that the settings name.
pub fn section(settings: &Settings, now: Millis) -> Section {
    let mut findings = vec![configuration(settings)];
    findings.extend(settings.warnings.iter().map(|warning| {
        Finding::warning("configuration", warning)
            .advising("remove the key, or correct its spelling")
    }));
    let creds = credentials(&settings.credentials).map_err(|finding| findings.push(finding));
    let trust =
        trust(&settings.account, settings.operator).map_err(|finding| findings.push(finding));
    if let (Ok(creds), Ok(trust)) = (creds, trust) {
        findings.extend(caller(&creds, &trust, now));
        let issued = clock::written(trust.issued_at());
        findings.push(Finding::ok(
            "trust",
            format!("the operator's account token, of {issued}"),
        ));
    }
    Section {
        about: "This side".to_owned(),
        here: true,
        findings,
    }
}

fn configuration(settings: &Settings) -> Finding {
    Finding::ok("configuration", settings.file.display().to_string())
}

fn credentials(path: &Path) -> Result<Creds, Finding> {
    let wrong = |message: String| Finding::error("credentials", message);
    let shown = path.display();
    let text = muster_secret::read(path, Keeper::Person, Creds::FILE_BYTES).map_err(|error| {
        let missing = error.is_missing();
        let finding = wrong(error.to_string());
        if missing {
            return finding
                .advising("`rpc org add user NAME --bundle ~/.config/muster` makes some");
        }
        finding
    })?;
    Creds::parse(&text).map_err(|error| wrong(format!("{shown}: {error}")))
}

fn trust(path: &Path, operator: PublicKey) -> Result<Trust, Finding> {
    let wrong = |message: String| Finding::error("trust", message);
    let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
    let text = read(path, length).map_err(wrong)?;
    Trust::new(operator, text.trim()).map_err(|error| {
        wrong(format!("{}: {error}", path.display()))
            .advising("take account.jwt and the operator's key from one and the same organisation")
    })
}

/// Whether the fleet will believe us, and how long.
fn caller(creds: &Creds, trust: &Trust, now: Millis) -> Vec<Finding> {
    let own = match trust.verify_user(creds.jwt(), now) {
        Ok(own) => own,
        Err(error) => {
            return vec![
                Finding::error("credentials", format!("nobody will believe them: {error}"))
                    .advising(
                        "`rpc org add user` issues new ones; a new account.jwt may be needed too",
                    ),
            ];
        }
    };
    let mut findings = vec![who(&own, now)];
    findings.extend(may_look(&own));
    findings
}

fn who(own: &Verified, now: Millis) -> Finding {
    let name = &own.identity;
    if own.role != Role::Caller {
        let role = own.role.word();
        return Finding::error(
            "credentials",
            format!("{name} is a {role}, and only callers may ask"),
        )
        .advising("take the credentials of a user: `rpc org add user NAME`");
    }
    match own.expires {
        None => Finding::ok("credentials", format!("{name}, valid without end")),
        Some(at) => {
            let until = clock::written(at / 1000);
            let message = format!("{name}, valid until {until}");
            if at.saturating_sub(now) < SOON {
                return Finding::warning("credentials", message)
                    .advising("`rpc org add user` issues new ones");
            }
            Finding::ok("credentials", message)
        }
    }
}

/// Finding nodes is a question to `rpcutil`.
fn may_look(own: &Verified) -> Option<Finding> {
    let mut granted = own.tags.iter().filter_map(|tag| tag.strip_prefix("agent:"));
    let may = granted.any(|grant| grant == "*" || grant.split('.').next() == Some("rpcutil"));
    (own.role == Role::Caller && !may).then(|| {
        Finding::error(
            "permissions",
            "the credentials do not cover `rpcutil`, so nobody can be found",
        )
        .advising("issue them with `--agent rpcutil` too")
    })
}

fn read(path: &Path, length: u64) -> Result<String, String> {
    let shown = path.display();
    if length > FILE_BYTES {
        return Err(format!(
            "{shown} has {length} bytes; that is not what it should be"
        ));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))
}
