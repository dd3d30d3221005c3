//! `sign`: signs the request of a name, if it is the one that the caller means.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::at;
use crate::desk::{Ask, Desk};
use crate::name::CertName;

pub(crate) struct Sign(pub(crate) Arc<Desk>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    certname: String,
    /// Of the request.
    fingerprint: Option<String>,
    public_key: Option<String>,
    /// In seconds.
    ttl: Option<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    changed: bool,
    message: String,
    certname: String,
    /// Of the certificate.
    fingerprint: String,
    public_key: String,
    serial: String,
    not_after: i64,
}

impl Action for Sign {
    const NAME: &'static str = "sign";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        if input.ttl == Some(0) {
            return Err(ActionError::invalid(
                "ttl must be a number of seconds above 0",
            ));
        }
        let ask = Ask {
            name: CertName::parse(&input.certname)?,
            fingerprint: input.fingerprint,
            public_key: input.public_key,
            ttl: input.ttl,
        };
        at(&self.0, cx, move |desk, ca| {
            let (changed, known) = desk.sign(ca, &ask)?;
            let message = if changed { "signed" } else { "already signed" };
            Ok(Output {
                changed,
                message: message.to_owned(),
                certname: input.certname,
                fingerprint: known.fingerprint,
                public_key: known.public_key,
                serial: known.serial,
                not_after: known.not_after,
            })
        })
        .await
    }
}
