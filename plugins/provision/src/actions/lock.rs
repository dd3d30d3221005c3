//! `lock`, `unlock`, `is_locked`: who has the node.

use std::sync::Arc;
use std::time::Duration;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::Nothing;
use crate::desk::Desk;
use crate::hold::Look;

/// Leases in seconds.
const LEASES: std::ops::RangeInclusive<u64> = 5..=3600;

pub(crate) struct Lock(pub(crate) Arc<Desk>);
pub(crate) struct Unlock(pub(crate) Arc<Desk>);
pub(crate) struct IsLocked(pub(crate) Arc<Desk>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Take {
    owner: String,
    /// In seconds.
    lease: u64,
    fence: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GiveBack {
    fence: Option<u64>,
    force: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    locked: bool,
    owner: String,
    fence: u64,
    /// In seconds since 1970.
    expires: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct GivenBack {
    unlocked: bool,
}

impl From<Look> for Output {
    fn from(look: Look) -> Self {
        Self {
            expires: look.held.as_ref().map_or(0, |lock| lock.expires / 1000),
            locked: look.held.is_some(),
            owner: look.owner,
            fence: look.fence,
        }
    }
}

impl Action for Lock {
    const NAME: &'static str = "lock";
    type Input = Take;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Take) -> Result<Output, ActionError> {
        if !LEASES.contains(&input.lease) {
            return Err(ActionError::invalid("lease must be 5 to 3600 seconds"));
        }
        let lease = Duration::from_secs(input.lease);
        self.0
            .look(cx, move |desk, cx, _| {
                let now = cx.system.now();
                desk.hold.take(&input.owner, lease, input.fence, now)?;
                Ok(desk.hold.look(now)?.into())
            })
            .await
    }
}

impl Action for Unlock {
    const NAME: &'static str = "unlock";
    type Input = GiveBack;
    type Output = GivenBack;

    async fn run(&self, cx: &Context, input: GiveBack) -> Result<GivenBack, ActionError> {
        self.0
            .look(cx, move |desk, cx, _| {
                let now = cx.system.now();
                let unlocked = desk.hold.give_back(input.fence, input.force, now)?;
                Ok(GivenBack { unlocked })
            })
            .await
    }
}

impl Action for IsLocked {
    const NAME: &'static str = "is_locked";
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        self.0
            .look(cx, |desk, cx, _| {
                Ok(desk.hold.look(cx.system.now())?.into())
            })
            .await
    }
}
