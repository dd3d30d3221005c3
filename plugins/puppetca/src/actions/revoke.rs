//! `revoke`: voids the certificate of a name, which stays known.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use super::{Named, at};
use crate::desk::Desk;
use crate::name::CertName;

pub(crate) struct Revoke(pub(crate) Arc<Desk>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    certname: String,
    changed: bool,
    serial: String,
}

impl Action for Revoke {
    const NAME: &'static str = "revoke";
    type Input = Named;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Named) -> Result<Output, ActionError> {
        let name = CertName::parse(&input.certname)?;
        at(&self.0, cx, move |_, ca| {
            let (changed, serial) = Desk::revoke(ca, &name)?;
            Ok(Output {
                certname: input.certname,
                changed,
                serial,
            })
        })
        .await
    }
}
