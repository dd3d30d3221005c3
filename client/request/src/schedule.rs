//! Calls of the scheduling service on a connection.

use muster_client::ScheduleCallError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fleet::FleetConnection;

impl FleetConnection {
    /// Calls an action of any instance of the scheduling service, and reads its outputs.
    pub async fn call_scheduler<T: DeserializeOwned>(
        &self,
        action: &str,
        inputs: &impl Serialize,
    ) -> Result<T, ScheduleCallError> {
        self.client.call_scheduler(action, inputs).await
    }
}
