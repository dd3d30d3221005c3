//! Calls of the scheduling service on a connection.

use muster_calls::ScheduleCallError;
use muster_contract::schedule::ScheduleAgent;
use muster_ddl::Action;

use crate::fleet::FleetConnection;

impl FleetConnection {
    /// Calls an action of any instance of the scheduling service, and reads its outputs.
    pub async fn call_scheduler<A: Action<Agent = ScheduleAgent>>(
        &self,
        input: &A::Input,
    ) -> Result<A::Output, ScheduleCallError> {
        self.client.call_scheduler::<A>(input).await
    }
}
