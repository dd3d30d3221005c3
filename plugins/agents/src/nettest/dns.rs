//! `dns`: resolves a name with the node's resolver: its files, then its name servers.

use std::collections::BTreeSet;

use muster_api::{ActionError, CallContext, NoState};
use muster_contract::nettest::{NettestDnsInput, NettestDnsOutput};
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};

use super::{effective_timeout, round_millis};

pub(crate) async fn resolve_name(
    _: NoState,
    cx: CallContext,
    input: NettestDnsInput,
) -> Result<NettestDnsOutput, ActionError> {
    let started_at = Instant::now();
    let time_limit = effective_timeout(&cx, input.timeout);
    let name = &input.name;
    let found = timeout(time_limit, lookup_host((name.as_str(), 0))).await;
    let found = found
        .map_err(|_| {
            let seconds = time_limit.as_secs_f64();
            ActionError::failed(format!("no DNS answer for {name} within {seconds} s"))
        })?
        .map_err(|error| ActionError::failed(format!("cannot resolve {name}: {error}")))?;
    let addresses: BTreeSet<String> = found.map(|address| address.ip().to_string()).collect();
    Ok(NettestDnsOutput {
        addresses: addresses.into_iter().collect(),
        ms: round_millis(started_at.elapsed()),
    })
}
