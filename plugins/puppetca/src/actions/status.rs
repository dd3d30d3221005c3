//! `status`: what the authority knows of a name.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Named, at};
use crate::desk::Desk;
use crate::name::CertName;

pub(crate) struct Status(pub(crate) Arc<Desk>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    certname: String,
    state: String,
    fingerprint: String,
    public_key: String,
    serial: String,
    not_before: i64,
    not_after: i64,
    dns_alt_names: Vec<String>,
    authorization_extensions: Map<String, Value>,
}

impl Action for Status {
    const NAME: &'static str = "status";
    type Input = Named;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Named) -> Result<Output, ActionError> {
        let name = CertName::parse(&input.certname)?;
        at(&self.0, cx, move |_, ca| {
            let known = Desk::look(ca, &name)?;
            Ok(Output {
                certname: input.certname,
                state: known.state.to_owned(),
                fingerprint: known.fingerprint,
                public_key: known.public_key,
                serial: known.serial,
                not_before: known.not_before,
                not_after: known.not_after,
                dns_alt_names: known.dns_alt_names,
                authorization_extensions: known.authorization_extensions,
            })
        })
        .await
    }
}
