//! Who the caller is to the nodes: a summary of the configuration, the credentials and the account token. Reads local files and sends nothing.

use muster_base::error_chain;
use muster_files::files::{FileAccessError, read_secret, read_text};
use muster_wire::Millis;
use muster_wire::token::{
    AccountTrust, PublicKey, TokenError, UserCredentials, UserCredentialsError, UserRole,
};

use crate::settings::RpcSettings;

/// Maximum size of an account token, in bytes.
const MAX_TOKEN_BYTES: u64 = 1024 * 1024;

/// Who the caller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerSummary {
    /// Name of the fleet: that of its account token.
    pub fleet: String,
    /// Public key of the fleet's account.
    pub account: PublicKey,
    /// Name of the user.
    pub user: String,
    /// Public key of the user.
    pub key: PublicKey,
    /// Expiry of the credentials; `None` never expires.
    pub expires_at: Option<Millis>,
    /// Agents, or single actions, that the broker lets the user call; `*` is all.
    pub agents: Vec<String>,
    /// Why nodes would reject the credentials, if they would.
    pub problem: Option<String>,
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
pub enum CallerSummaryError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// The credentials are malformed.
    #[error("{path}: {source}")]
    Credentials {
        /// The file.
        path: String,
        /// The problem.
        #[source]
        source: UserCredentialsError,
    },
    /// The account token is not one of the configured operator.
    #[error("{path} is not an account token of the configured operator")]
    Account {
        /// The file.
        path: String,
        /// The problem.
        #[source]
        source: TokenError,
    },
}

impl CallerSummary {
    /// Reads the files that the settings name.
    pub fn load(settings: &RpcSettings, now: Millis) -> Result<Self, CallerSummaryError> {
        let text = read_secret(&settings.credentials, UserCredentials::MAX_FILE_BYTES)?;
        let credentials = UserCredentials::parse(&text).map_err(|source| {
            let path = settings.credentials.display().to_string();
            CallerSummaryError::Credentials { path, source }
        })?;
        let trust = load_account(settings)?;
        let claims = credentials.claims();
        let agents = claims.nats.tags.iter().filter_map(|tag| tag.strip_prefix("agent:"));
        let problem = match trust.verify_user(credentials.jwt(), now) {
            Ok(user) if user.role == UserRole::Caller => None,
            Ok(user) => Some(format!(
                "they are those of a {}, and only users send requests",
                user.role.as_str()
            )),
            Err(error) => Some(error_chain(&error)),
        };
        Ok(Self {
            fleet: trust.claims().name.clone(),
            account: trust.account_key(),
            user: claims.name.clone(),
            key: claims.sub,
            expires_at: (claims.exp != 0).then(|| claims.exp.saturating_mul(1000)),
            agents: agents.map(str::to_owned).collect(),
            problem,
        })
    }
}

/// The name of the fleet that the settings select; `None` if its account token cannot be read.
pub fn fleet_name(settings: &RpcSettings) -> Option<String> {
    load_account(settings).ok().map(|trust| trust.claims().name.clone())
}

fn load_account(settings: &RpcSettings) -> Result<AccountTrust, CallerSummaryError> {
    let text = read_text(&settings.account, MAX_TOKEN_BYTES)?;
    AccountTrust::new(settings.operator, text.trim()).map_err(|source| {
        let path = settings.account.display().to_string();
        CallerSummaryError::Account { path, source }
    })
}
