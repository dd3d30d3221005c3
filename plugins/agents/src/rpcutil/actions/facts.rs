//! `get_fact` and `get_facts`: facts by their dotted paths.

use muster_api::{CallContext, NoState};
use muster_contract::rpcutil::{
    RpcutilGetFactInput, RpcutilGetFactOutput, RpcutilGetFactsInput, RpcutilGetFactsOutput,
};

pub(crate) fn get_fact(
    _: &NoState,
    cx: &CallContext,
    RpcutilGetFactInput { fact }: RpcutilGetFactInput,
) -> RpcutilGetFactOutput {
    let value = cx.node.facts().get(&fact).cloned().unwrap_or_default();
    RpcutilGetFactOutput { fact, value }
}

pub(crate) fn get_facts(
    _: &NoState,
    cx: &CallContext,
    RpcutilGetFactsInput { facts: paths }: RpcutilGetFactsInput,
) -> RpcutilGetFactsOutput {
    let facts = cx.node.facts();
    let value = |path: &str| facts.get(path).cloned().unwrap_or_default();
    let paths = paths.split(',').map(str::trim);
    RpcutilGetFactsOutput { values: paths.map(|path| (path.to_owned(), value(path))).collect() }
}
