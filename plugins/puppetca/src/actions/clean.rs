//! `clean`: revokes the certificate of a name and forgets it, so that the name is free and what was leaked is worth nothing.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use super::{Named, at};
use crate::desk::{Cleaned, Desk};
use crate::name::CertName;

pub(crate) struct Clean(pub(crate) Arc<Desk>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    certname: String,
    found: bool,
    revoked: bool,
    serial: String,
    message: String,
}

impl Action for Clean {
    const NAME: &'static str = "clean";
    type Input = Named;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Named) -> Result<Output, ActionError> {
        let name = CertName::parse(&input.certname)?;
        at(&self.0, cx, move |desk, ca| {
            let done = desk.clean(ca, &name)?;
            Ok(Output {
                certname: input.certname,
                found: done.found,
                revoked: done.revoked,
                message: words(&done).to_owned(),
                serial: done.serial,
            })
        })
        .await
    }
}

/// What was done.
fn words(done: &Cleaned) -> &'static str {
    match (done.found, done.revoked) {
        (false, _) => "the authority does not know this name",
        (true, true) => "revoked the certificate and removed it",
        (true, false) => "removed what was left of it; there was nothing to revoke",
    }
}
