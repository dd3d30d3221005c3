//! `ledger()`: how many refreshes are owed on the node, and since when.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;

use crate::actions::debts;
use crate::options::Options;

pub(crate) struct LedgerData(pub(crate) Arc<Options>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    pending: usize,
    oldest: Option<i64>,
    targets: String,
}

impl DataSource for LedgerData {
    const NAME: &'static str = "ledger";
    type Output = Output;

    async fn query(&self, cx: &Context, _: Option<&str>) -> Result<Output, ActionError> {
        let options = Arc::clone(&self.0);
        let system = Arc::clone(&cx.system);
        cx.blocking(move |_| {
            let debts = debts(&options)?;
            let now = system.now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            let mut targets: Vec<&str> = debts.iter().map(|debt| debt.target.as_str()).collect();
            targets.sort_unstable();
            targets.dedup();
            Ok(Output {
                pending: debts.len(),
                oldest: debts.iter().map(|debt| now - debt.since).max(),
                targets: targets.join(", "),
            })
        })
        .await?
    }
}
