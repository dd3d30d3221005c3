//! `provision()`: how far provisioning of the node is, for filters that find the nodes to be taken.

use std::path::PathBuf;

use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;

use crate::hold::Hold;

pub(crate) struct ProvisionData(pub(crate) PathBuf);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    disabled: bool,
    locked: bool,
    owner: Option<String>,
    provisioning: bool,
}

impl DataSource for ProvisionData {
    const NAME: &'static str = "provision";
    type Output = Output;

    async fn query(&self, cx: &Context, _: Option<&str>) -> Result<Output, ActionError> {
        let hold = Hold::new(self.0.clone());
        let system = cx.system.clone();
        cx.blocking(move |_| {
            let (disabled, provisioning) = hold.marks();
            let look = hold.look(system.now())?;
            Ok(Output {
                disabled,
                locked: look.held.is_some(),
                owner: look.held.map(|lock| lock.owner),
                provisioning,
            })
        })
        .await?
    }
}
