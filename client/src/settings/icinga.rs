//! Parses the section `[icinga]`: how results of checks reach the API of Icinga 2.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_calls::ClientCertificateFiles;
use muster_files::SecretOwner;

use super::file::IcingaSection;

/// Default of `icinga.timeout_seconds`.
const TIMEOUT_SECONDS: u64 = 10;
/// Largest value of `icinga.timeout_seconds`.
const MAX_TIMEOUT_SECONDS: u64 = 300;

/// Address and user of Icinga 2's API. Contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcingaSettings {
    /// The configuration file.
    pub file: PathBuf,
    /// The address, unless the command line has one.
    pub url: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The file with its password.
    pub password_file: Option<PathBuf>,
    /// PEM file of the CA that signed the server's certificate.
    pub ca: Option<PathBuf>,
    /// The certificate of the user, and its key.
    pub client: Option<ClientCertificateFiles>,
    /// Time limit of a request.
    pub timeout: Duration,
}

/// Parses the keys, or returns the invalid one and the reason. Relative paths are resolved against the directory of the file.
pub(super) fn parse_icinga(
    keys: IcingaSection,
    file: &Path,
) -> Result<IcingaSettings, (&'static str, String)> {
    let resolve = |name: PathBuf| file.parent().unwrap_or(Path::new("")).join(name);
    let unpaired = |key, other| Err((key, format!("needs `{other}`")));
    let client = match (keys.certificate, keys.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(ClientCertificateFiles {
            certificate: resolve(certificate),
            key: resolve(key),
            owner: SecretOwner::Person,
        }),
        (Some(_), None) => return unpaired("icinga.certificate", "icinga.key"),
        (None, Some(_)) => return unpaired("icinga.key", "icinga.certificate"),
    };
    if keys.user.is_none() && keys.password_file.is_some() {
        return unpaired("icinga.password_file", "icinga.user");
    }
    let is_invalid_name =
        |name: &String| name.is_empty() || name.contains(|c: char| c == ':' || c.is_control());
    if keys.user.as_ref().is_some_and(is_invalid_name) {
        return Err(("icinga.user", "must be a name without a colon".to_owned()));
    }
    let timeout = keys.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
    if !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout) {
        let problem = format!("is {timeout}; use a number from 1 to {MAX_TIMEOUT_SECONDS}");
        return Err(("icinga.timeout_seconds", problem));
    }
    Ok(IcingaSettings {
        file: file.to_owned(),
        url: keys.url,
        user: keys.user,
        password_file: keys.password_file.map(resolve),
        ca: keys.ca.map(resolve),
        client,
        timeout: Duration::from_secs(timeout),
    })
}
