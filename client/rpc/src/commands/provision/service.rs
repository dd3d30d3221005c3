//! The provisioning service.

use crate::commands::context::{CommandContext, Result};
use crate::commands::service_client::{FleetService, ServiceClient};

const PROVISIONER: FleetService = FleetService {
    agent: "provisioner",
    absent: "no host runs the provisioning service; enable it in [plugins.provisioner] on one",
    silent: "no provisioning host replied",
};

/// Finds the hosts; `None` if there are none, which is printed.
pub async fn find_hosts(cx: CommandContext<'_>) -> Result<Option<ServiceClient<'_>>> {
    ServiceClient::find_hosts(PROVISIONER, None, cx).await
}
