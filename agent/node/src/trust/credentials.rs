//! Reads the files that prove who this node or service is and whom it trusts, and derives connection options from them.
//!
//! It does not choose between configured and stored files: `own_tokens` and `enrolment` do.

use std::io;
use std::path::{Path, PathBuf};

use muster_bus::{BrokerAddress, BrokerCredentials, BusError, BusOptions, ReconnectBackoff};
use muster_files::{SecretFileError, SecretOwner, read_secret};
use muster_wire::identity::Identity;
use muster_wire::limits;
use muster_wire::sign::Signer;
use muster_wire::subject;
use muster_wire::token::{AccountTrust, KeyPair, PublicKey, ServiceRight, UserCredentials};

use crate::config::Config;
use crate::ground::files;

const MAX_SEED_BYTES: u64 = 1024;

/// Why a file with credentials, a token or a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("cannot read {content} from {}", path.display())]
    Read { content: &'static str, path: PathBuf, source: io::Error },
    #[error("the configured identity is `{configured}`, but the credentials in {} are for `{found}`", path.display())]
    Identity { configured: Identity, found: Identity, path: PathBuf },
    /// It is a secret that other users can read, or cannot be read.
    #[error(transparent)]
    Exposed(#[from] SecretFileError),
    #[error("the credentials of {name} in {} have no right to serve `{right}`; create others with `rpc org add service {name} --serve {right} --renew`", path.display())]
    MissingRight { path: PathBuf, name: String, right: ServiceRight },
    /// Its content is invalid, or its signer is not trusted.
    #[error("{content} in {} cannot be used", path.display())]
    Unusable {
        content: &'static str,
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl CredentialsError {
    fn unusable<E>(content: &'static str, path: &Path) -> impl Fn(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |source| Self::Unusable { content, path: path.to_owned(), source: Box::new(source) }
    }
}

/// Rejects a file that other users can read.
pub fn read_signer(path: &Path) -> Result<Signer, CredentialsError> {
    read_named_signer(path, "the credentials", "the name in the credentials")
}

/// Reads the credentials of a service. Rejects those of a user that may not serve it, because the broker would refuse its subjects one by one.
pub fn read_service_signer(path: &Path, right: ServiceRight) -> Result<Signer, CredentialsError> {
    let signer = read_signer(path)?;
    let claims = signer.claims();
    if !right.is_in(&claims.nats.tags) {
        let (path, name) = (path.to_owned(), claims.name.clone());
        return Err(CredentialsError::MissingRight { path, name, right });
    }
    Ok(signer)
}

/// Reads the bootstrap credentials of a machine that is not enrolled yet.
pub(crate) fn read_bootstrap_signer(path: &Path) -> Result<Signer, CredentialsError> {
    read_named_signer(path, "the bootstrap credentials", "the name in the bootstrap credentials")
}

fn read_named_signer(
    path: &Path,
    content: &'static str,
    name: &'static str,
) -> Result<Signer, CredentialsError> {
    let text = read_secret(path, SecretOwner::Daemon, UserCredentials::MAX_FILE_BYTES)?;
    let creds = UserCredentials::parse(&text).map_err(CredentialsError::unusable(content, path))?;
    Signer::new(creds).map_err(CredentialsError::unusable(name, path))
}

/// An account, verified against the pinned operator key, from the token in this file.
pub fn read_trust(
    config: &Config,
    content: &'static str,
    path: &Path,
) -> Result<AccountTrust, CredentialsError> {
    let operator = PublicKey::parse(&config.trust.operator)
        .map_err(CredentialsError::unusable(content, path))?;
    let token = read_token(content, path)?;
    AccountTrust::new(operator, token.trim()).map_err(CredentialsError::unusable(content, path))
}

pub fn read_key(path: &Path) -> Result<KeyPair, CredentialsError> {
    let seed = read_secret(path, SecretOwner::Daemon, MAX_SEED_BYTES)?;
    KeyPair::from_seed(seed.trim()).map_err(CredentialsError::unusable("the key", path))
}

/// Reads a token, which is not secret.
pub(crate) fn read_token(content: &'static str, path: &Path) -> Result<String, CredentialsError> {
    files::read_text(path, limits::MAX_TOKEN_BYTES as u64)
        .map_err(|source| CredentialsError::Read { content, path: path.to_owned(), source })
}

pub fn connect_options(config: &Config, signer: &Signer) -> Result<BusOptions, BusError> {
    let parse = |url: &String| BrokerAddress::parse(url, config.broker.plaintext_on_loopback);
    let servers = config.broker.urls.iter().map(parse).collect::<Result<_, _>>()?;
    let mut options = BusOptions::for_daemon(signer.identity().as_str(), servers);
    options.authority.clone_from(&config.broker.ca);
    options.followed = config.broker_addresses();
    options.backoff = ReconnectBackoff::spread_over(config.broker.reconnect_spread);
    Ok(with_signer(options, signer))
}

pub fn with_signer(options: BusOptions, signer: &Signer) -> BusOptions {
    BusOptions {
        name: signer.identity().to_string(),
        credentials: Some(BrokerCredentials::from_signer(signer)),
        inbox_prefix: Some(subject::inbox_prefix(&signer.public_key().to_string())),
        ..options
    }
}
