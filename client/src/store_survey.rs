//! What the broker stores and the directory answer to one caller, for diagnosis.

use muster_calls::{ClientError, DIRECTORY_AGENT, DirectoryError, TrustLookupError};
use muster_contract::directory::{DirectoryStatus, DirectoryStatusOutput};
use muster_ddl::EmptyInput;
use muster_wire::identity::Identity;

use crate::directory::QUERY_TIMEOUT;
use crate::fleet::FleetConnection;

/// What was answered.
#[derive(Debug)]
pub struct StoreSurvey {
    /// Whether the connected server has `JetStream`.
    pub has_jetstream: bool,
    /// Whether the newest account token can be read from its store.
    pub trust: Result<(), TrustLookupError>,
    /// What the directory says of itself; `None` if this caller may not ask it.
    pub directory: Option<Result<DirectoryStatusOutput, DirectoryError>>,
    /// The services that may answer for the directory, according to the account token.
    pub directories: Vec<Identity>,
}

/// Asks the store of the account token, and the directory.
pub async fn survey_stores(fleet: &FleetConnection) -> StoreSurvey {
    let (trust, directory) = tokio::join!(
        fleet.client.refresh_trust(),
        fleet.client.query_directory::<DirectoryStatus>(&EmptyInput {}, QUERY_TIMEOUT)
    );
    StoreSurvey {
        has_jetstream: fleet.client.bus().has_jetstream(),
        trust: trust.map(drop),
        directory: match directory {
            Err(DirectoryError::Client(ClientError::NotGranted { .. })) => None,
            answer => Some(answer),
        },
        directories: fleet.client.trust().services_for(DIRECTORY_AGENT).cloned().collect(),
    }
}
