//! Delivers passive results to the HTTP API of Icinga 2: a few at a time over kept connections, with bounded retries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_base::error_chain;
use muster_calls::{
    HttpsAnswer, HttpsClient, HttpsFileError, HttpsLimits, HttpsPassword, HttpsRequestError,
    HttpsServer,
};
use muster_client::IcingaSettings;
use muster_files::{SecretFileError, SecretOwner, read_secret};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::icinga_message::{
    ACTION_PATH, ACTION_PERMISSION, IcingaAnswer, read_answer, render_request, service_name,
};
use super::result::PassiveResult;
use super::sink::{DeliveryReport, RefusedResult};

/// How many requests run at once, each with a connection of its own.
const CONCURRENT_REQUESTS: usize = 8;
/// Time limit of a connection, with TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pauses before a request is sent again after a failed connection or an error of the server.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// Largest answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// Largest file with a password, in bytes.
const MAX_PASSWORD_BYTES: u64 = 4096;
/// The path that answers every user with its name.
const PROBE_PATH: &str = "/v1";

/// Why results were not delivered.
#[derive(Debug, thiserror::Error)]
pub enum IcingaApiError {
    /// The address is not one of an API.
    #[error(
        "{0:?} is not an address of Icinga 2's API; use https://HOST:5665, or http:// for a loopback address"
    )]
    Url(String),
    /// A setting is missing.
    #[error("Icinga 2's API needs {what}; set `{key}` in {}", file.display())]
    Setting {
        /// What is missing.
        what: &'static str,
        /// The key.
        key: &'static str,
        /// The configuration file.
        file: PathBuf,
    },
    /// The password cannot be read, or other users could read it.
    #[error(transparent)]
    Password(#[from] SecretFileError),
    /// The password cannot be sent.
    #[error("the file {} has no password on its only line", .0.display())]
    EmptyPassword(PathBuf),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    File(#[from] HttpsFileError),
    /// There is no trusted connection.
    #[error("cannot connect to Icinga at {url}; check `icinga.ca` and the name in its certificate")]
    Untrusted {
        /// The address.
        url: String,
        /// The error of TLS.
        source: HttpsRequestError,
    },
    /// The user is not known.
    #[error("Icinga at {url} does not accept {user}: wrong name, password or certificate")]
    Unauthorized {
        /// The address.
        url: String,
        /// The user.
        user: String,
    },
    /// The user lacks the permission.
    #[error(
        "Icinga at {url} denies {user} the permission {ACTION_PERMISSION}; add it to `permissions` of the ApiUser"
    )]
    Forbidden {
        /// The address.
        url: String,
        /// The user.
        user: String,
    },
    /// Icinga does not answer now.
    #[error("Icinga at {url} is not available: {problem}")]
    Away {
        /// The address.
        url: String,
        /// Why.
        problem: String,
    },
    /// The server is not Icinga 2, or has another version.
    #[error("the answer of {url} is not one of Icinga 2's API: {problem}")]
    Invalid {
        /// The address.
        url: String,
        /// What it was.
        problem: String,
    },
}

impl IcingaApiError {
    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Away { .. })
    }
}

/// The API of a server, with a user.
#[derive(Debug)]
pub struct IcingaApi {
    sender: ResultSender,
}

/// Sends single requests.
#[derive(Debug, Clone)]
struct ResultSender {
    client: HttpsClient,
    url: String,
    /// The user, as in messages.
    user: String,
    ttl: Option<u64>,
}

impl IcingaApi {
    /// Reads the files of the settings. `url` replaces the address of the settings; `ttl` is for how many seconds a result is valid. Does not connect.
    pub fn open(
        settings: &IcingaSettings,
        url: Option<&str>,
        ttl: Option<Duration>,
    ) -> Result<Self, IcingaApiError> {
        let missing = |key, what| {
            let file = settings.file.clone();
            IcingaApiError::Setting { what, key, file }
        };
        let url = url.or(settings.url.as_deref());
        let url = url.ok_or_else(|| missing("icinga.url", "an address"))?;
        if url.starts_with("https:") && settings.ca.is_none() {
            return Err(missing("icinga.ca", "the certificate of Icinga's CA"));
        }
        let (ca, client) = (settings.ca.clone().unwrap_or_default(), settings.client.clone());
        let server = HttpsServer::new(url, ca, client);
        let server = server.ok_or_else(|| IcingaApiError::Url(without_user(url)))?;
        let (user, password) = match (&settings.user, &settings.password_file) {
            (Some(user), Some(path)) => {
                (format!("the user {user}"), Some(read_password(user, path)?))
            }
            (Some(_), None) => {
                return Err(missing("icinga.password_file", "the password of the user"));
            }
            (None, _) => match &settings.client {
                Some(files) => (format!("the certificate {}", files.certificate.display()), None),
                None => {
                    return Err(missing("icinga.user", "a user with a password, or a certificate"));
                }
            },
        };
        let limits = HttpsLimits {
            timeout: settings.timeout,
            connect_timeout: CONNECT_TIMEOUT.min(settings.timeout),
            connections: CONCURRENT_REQUESTS,
        };
        let client = HttpsClient::open(&server, password, limits)?;
        let (url, ttl) = (server.url().to_owned(), ttl.map(|ttl| ttl.as_secs()));
        Ok(Self { sender: ResultSender { client, url, user, ttl } })
    }

    /// Delivers results, several at once: no two of them may be of the same service. Ends at the first error that is not about one service.
    pub async fn deliver(
        &self,
        results: Vec<PassiveResult>,
    ) -> Result<DeliveryReport, IcingaApiError> {
        let (mut report, mut running) = (DeliveryReport::default(), JoinSet::new());
        let mut results = results.into_iter();
        loop {
            while running.len() < CONCURRENT_REQUESTS
                && let Some(result) = results.next()
            {
                let sender = self.sender.clone();
                running.spawn(async move { sender.send_result(&result).await });
            }
            let Some(ended) = running.join_next().await else { return Ok(report) };
            match ended.map_err(|error| self.sender.away(&error.to_string()))?? {
                None => report.accepted += 1,
                Some(refused) => report.refused.push(refused),
            }
        }
    }

    /// Asks whether Icinga answers the user.
    pub async fn probe(&self) -> Result<(), IcingaApiError> {
        let client = self.sender.client.clone();
        let answer = spawn_blocking(move || client.get_json(PROBE_PATH, MAX_ANSWER_BYTES));
        let answer = answer.await.map_err(|error| self.sender.away(&error.to_string()))?;
        match answer {
            Ok(HttpsAnswer { status: 500.., .. }) => Err(self.sender.away("it has an error")),
            // Any other answer shows that it is back. What it means is shown by the next result.
            Ok(_) => Ok(()),
            Err(error) => Err(self.sender.request_error(error)),
        }
    }
}

impl Drop for IcingaApi {
    fn drop(&mut self) {
        // Requests that are running would delay the end of the process.
        self.sender.client.shut_down();
    }
}

impl ResultSender {
    /// Sends a result, again after an error that may pass. Returns it if Icinga does not take it.
    async fn send_result(
        &self,
        result: &PassiveResult,
    ) -> Result<Option<RefusedResult>, IcingaApiError> {
        let body = render_request(result, self.ttl);
        let mut pauses = RETRY_PAUSES.into_iter();
        loop {
            let (client, sent) = (self.client.clone(), body.clone());
            let answer =
                spawn_blocking(move || client.post_json(ACTION_PATH, &sent, MAX_ANSWER_BYTES));
            let answer = answer.await.map_err(|error| self.away(&error.to_string()))?;
            // A result that arrives twice only counts as one more attempt. A server that is silent is not asked again.
            let may_pass = match &answer {
                Ok(answer) => answer.status >= 500,
                Err(error) => matches!(error, HttpsRequestError::Connection(_)),
            };
            match pauses.next().filter(|_| may_pass) {
                Some(pause) => sleep(pause).await,
                None => return self.read_answer(result, answer),
            }
        }
    }

    fn read_answer(
        &self,
        result: &PassiveResult,
        answer: Result<HttpsAnswer, HttpsRequestError>,
    ) -> Result<Option<RefusedResult>, IcingaApiError> {
        let answer = answer.map_err(|error| self.request_error(error))?;
        let (url, user) = (self.url.clone(), self.user.clone());
        let refused = |reason| Some(RefusedResult { service: service_name(result), reason });
        match read_answer(answer.status, &answer.body) {
            IcingaAnswer::Accepted => Ok(None),
            IcingaAnswer::UnknownService => Ok(refused(None)),
            IcingaAnswer::Refused(reason) => Ok(refused(Some(reason))),
            IcingaAnswer::Unauthorized => Err(IcingaApiError::Unauthorized { url, user }),
            IcingaAnswer::Forbidden => Err(IcingaApiError::Forbidden { url, user }),
            IcingaAnswer::ServerError(problem) => Err(IcingaApiError::Away { url, problem }),
            IcingaAnswer::Invalid(problem) => Err(IcingaApiError::Invalid { url, problem }),
        }
    }

    fn request_error(&self, error: HttpsRequestError) -> IcingaApiError {
        let url = self.url.clone();
        match error {
            HttpsRequestError::Tls(_) => IcingaApiError::Untrusted { url, source: error },
            HttpsRequestError::TooLarge(_) => {
                IcingaApiError::Invalid { url, problem: error.to_string() }
            }
            HttpsRequestError::Timeout(_) | HttpsRequestError::Connection(_) => {
                IcingaApiError::Away { url, problem: error_chain(&error) }
            }
        }
    }

    fn away(&self, problem: &str) -> IcingaApiError {
        IcingaApiError::Away { url: self.url.clone(), problem: problem.to_owned() }
    }
}

/// The address without a user and a password, which must not be printed.
fn without_user(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("...@{rest}"),
        None => url.to_owned(),
    }
}

/// The password in a file.
fn read_password(user: &str, path: &Path) -> Result<HttpsPassword, IcingaApiError> {
    let text = read_secret(path, SecretOwner::Person, MAX_PASSWORD_BYTES)?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() || password.contains(char::is_control) {
        return Err(IcingaApiError::EmptyPassword(path.to_owned()));
    }
    Ok(HttpsPassword::new(user, password))
}
