//! `ddl`: returns the DDL document of an agent of this node, so that callers need no copies.

use muster_api::{ActionError, BlockingContext, NoState};
use muster_contract::rpcutil::{RpcutilDdlInput, RpcutilDdlOutput};
use sha2::{Digest as _, Sha256};

pub(crate) fn read_agent_ddl(
    _: &NoState,
    cx: &BlockingContext,
    RpcutilDdlInput { agent }: RpcutilDdlInput,
) -> Result<RpcutilDdlOutput, ActionError> {
    let Some(ddl) = cx.node.agent_ddl(&agent) else {
        return Err(ActionError::failed(format!("this node has no agent {agent}")));
    };
    let text = serde_json::to_string(&*ddl).map_err(|error| {
        ActionError::internal_error(format!("cannot encode the DDL as JSON: {error}"))
    })?;
    let digest = Sha256::digest(text.as_bytes());
    Ok(RpcutilDdlOutput {
        version: ddl.version().to_owned(),
        sha256: format!("{digest:x}"),
        ddl: text,
    })
}
