//! `get_data`: queries one of the node's data sources.

use muster_api::{ActionError, CallContext, NoState, ValidatedDataSource};
use muster_contract::rpcutil::{RpcutilGetDataInput, RpcutilGetDataOutput};

pub(crate) async fn get_data(
    _: NoState,
    cx: CallContext,
    input: RpcutilGetDataInput,
) -> Result<RpcutilGetDataOutput, ActionError> {
    let sources = cx.node.data_sources();
    let Some(source) = sources.iter().find(|source| source.name() == input.source) else {
        let known: Vec<&str> = sources.iter().map(ValidatedDataSource::name).collect();
        let (requested, known) = (input.source, known.join(", "));
        let message = format!("this node has no data source `{requested}`; available: {known}");
        return Err(ActionError::invalid_input(message));
    };
    let data = source.query_values(&cx, input.query.as_deref()).await?;
    Ok(RpcutilGetDataOutput { data })
}
