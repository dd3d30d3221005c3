//! `provision()`: provisioning state of the node, for filters that select nodes to provision.

use std::path::PathBuf;

use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;

use crate::fenced_lock::FencedLock;

pub(crate) struct ProvisionDataSource(pub(crate) PathBuf);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ProvisionDataOutput {
    disabled: bool,
    locked: bool,
    owner: Option<String>,
    provisioning: bool,
}

impl DataSource for ProvisionDataSource {
    const NAME: &'static str = "provision";
    type Output = ProvisionDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        _: Option<&str>,
    ) -> Result<ProvisionDataOutput, ActionError> {
        let lock = FencedLock::new(self.0.clone());
        let system = cx.system.clone();
        cx.run_blocking(move |_| {
            let (disabled, provisioning) = lock.read_markers();
            let status = lock.lock_status(system.now())?;
            Ok(ProvisionDataOutput {
                disabled,
                locked: status.lock.is_some(),
                owner: status.lock.map(|lock| lock.owner),
                provisioning,
            })
        })
        .await?
    }
}
