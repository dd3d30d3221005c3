//! `ledger()`: the number of refreshes owed on the node, and the age of the oldest.

use muster_api::base::since_epoch;
use std::sync::Arc;

use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;

use crate::actions::read_owed_refreshes;
use crate::options::Options;

pub(crate) struct LedgerDataSource(pub(crate) Arc<Options>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct LedgerDataOutput {
    pending: usize,
    oldest: Option<i64>,
    targets: String,
}

impl DataSource for LedgerDataSource {
    const NAME: &'static str = "ledger";
    type Output = LedgerDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        _: Option<&str>,
    ) -> Result<LedgerDataOutput, ActionError> {
        let options = Arc::clone(&self.0);
        let system = Arc::clone(&cx.system);
        cx.run_blocking(move |_| {
            let refreshes = read_owed_refreshes(&options)?;
            let now = since_epoch(system.now());
            let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            let mut targets: Vec<&str> =
                refreshes.iter().map(|refresh| refresh.target.as_str()).collect();
            targets.sort_unstable();
            targets.dedup();
            Ok(LedgerDataOutput {
                pending: refreshes.len(),
                oldest: refreshes.iter().map(|refresh| now - refresh.since).max(),
                targets: targets.join(", "),
            })
        })
        .await?
    }
}
