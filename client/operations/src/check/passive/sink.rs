//! Where passive results go, and what became of them.

use std::fmt::Write as _;

use super::icinga_api::{IcingaApi, IcingaApiError};
use super::nagios_pipe::{NagiosPipe, NagiosPipeError};
use super::result::PassiveResult;

/// Most services that a text names.
const MAX_NAMED_SERVICES: usize = 10;

/// A monitoring system that takes passive results.
#[derive(Debug)]
pub enum PassiveSink {
    /// The command pipe of Nagios.
    Nagios(NagiosPipe),
    /// The HTTP API of Icinga 2.
    Icinga(IcingaApi),
}

/// Why results were not delivered.
#[derive(Debug, thiserror::Error)]
pub enum PassiveSinkError {
    /// The pipe cannot be used.
    #[error(transparent)]
    Nagios(#[from] NagiosPipeError),
    /// The API cannot be used.
    #[error(transparent)]
    Icinga(#[from] IcingaApiError),
    /// Some services did not take their result; all others did.
    #[error("{0}")]
    Refused(String),
}

/// What became of results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// How many were delivered.
    pub accepted: usize,
    /// Those that were not taken.
    pub refused: Vec<RefusedResult>,
}

/// A result that the monitoring system did not take.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedResult {
    /// The service with its host, as `host!service`.
    pub service: String,
    /// The monitoring system's reason; `None` if it does not know the service.
    pub reason: Option<String>,
}

impl PassiveSinkError {
    /// Whether the results may be delivered later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Icinga(error) if error.is_temporary())
    }
}

impl PassiveSink {
    /// Delivers results, of which no two may be of the same service. A pipe takes every line: what Nagios does not know, it logs.
    pub async fn deliver(
        &mut self,
        results: Vec<PassiveResult>,
    ) -> Result<DeliveryReport, PassiveSinkError> {
        match self {
            Self::Nagios(pipe) => {
                for result in &results {
                    pipe.write_result(result).await?;
                }
                Ok(DeliveryReport { accepted: results.len(), refused: Vec::new() })
            }
            Self::Icinga(api) => Ok(api.deliver(results).await?),
        }
    }

    /// Whether results can be delivered again after a temporary error.
    pub async fn probe(&self) -> Result<(), PassiveSinkError> {
        match self {
            Self::Nagios(_) => Ok(()),
            Self::Icinga(api) => Ok(api.probe().await?),
        }
    }
}

impl DeliveryReport {
    /// An error that names what was not taken, if there is any.
    pub fn check_refused(mut self) -> Result<(), PassiveSinkError> {
        let total = self.accepted + self.refused.len();
        self.refused.sort();
        match describe_refused(&self.refused, total) {
            Some(text) => Err(PassiveSinkError::Refused(text)),
            None => Ok(()),
        }
    }
}

/// One line about results that were not taken, out of a total number; `None` if there are none.
pub fn describe_refused(refused: &[RefusedResult], total: usize) -> Option<String> {
    let (unknown, other): (Vec<_>, Vec<_>) = refused.iter().partition(|one| one.reason.is_none());
    let mut text = String::new();
    if !unknown.is_empty() {
        let list = join_limited(unknown.iter().map(|one| one.service.clone()));
        let _ = write!(text, "Icinga does not know {} of {total} services: {list}", unknown.len());
    }
    if !other.is_empty() {
        let separator = if text.is_empty() { "" } else { "; " };
        let describe = |one: &&RefusedResult| {
            format!("{} ({})", one.service, one.reason.as_deref().unwrap_or_default())
        };
        let list = join_limited(other.iter().map(describe));
        let count = other.len();
        let _ = write!(text, "{separator}Icinga refused {count} of {total} results: {list}");
    }
    (!text.is_empty()).then_some(text)
}

/// The first texts, and how many more there are.
fn join_limited(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(MAX_NAMED_SERVICES);
    let first: Vec<String> = texts.take(MAX_NAMED_SERVICES).collect();
    let list = first.join(", ");
    if more == 0 { list } else { format!("{list} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::{DeliveryReport, RefusedResult, describe_refused};

    fn refused(service: &str, reason: Option<&str>) -> RefusedResult {
        RefusedResult { service: service.to_owned(), reason: reason.map(str::to_owned) }
    }

    #[test]
    fn summary_names_services_up_to_a_limit() {
        assert_eq!(describe_refused(&[], 5), None);
        let some = [refused("b!x", None), refused("a!x", Some("passive checks are disabled"))];
        let report = DeliveryReport { accepted: 3, refused: some.to_vec() };
        assert_eq!(
            report.check_refused().unwrap_err().to_string(),
            "Icinga does not know 1 of 5 services: b!x; Icinga refused 1 of 5 results: a!x (passive checks are disabled)"
        );
        let many: Vec<_> = (0..1000).map(|number| refused(&format!("n{number}!x"), None)).collect();
        let text = describe_refused(&many, 1000).unwrap();
        assert!(text.ends_with("n8!x, n9!x and 990 more"), "{text}");
        assert!(text.starts_with("Icinga does not know 1000 of 1000 services: n0!x, "), "{text}");
    }
}
