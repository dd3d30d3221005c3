//! `release`: ends this node's permit of a pool. What runs under it is stopped, as when the permit is lost.

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::list::pool_name;
use crate::desk::Desk;

pub(crate) struct Release(pub(crate) Desk);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    pool: String,
    run: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    released: usize,
}

impl Action for Release {
    const NAME: &'static str = "release";
    type Input = Input;
    type Output = Output;

    async fn run(&self, _: &Context, input: Input) -> Result<Output, ActionError> {
        let pool = pool_name(&input.pool)?;
        let run = match input.run {
            Some(run) => Some(
                Uuid::parse_str(&run)
                    .map_err(|error| ActionError::invalid(format!("run: {error}")))?,
            ),
            None => None,
        };
        Ok(Output {
            released: self.0.revoke(&pool, run),
        })
    }
}
