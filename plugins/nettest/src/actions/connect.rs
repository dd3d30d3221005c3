//! `connect`: opens a TCP connection and closes it again. A port that is not open is an answer, not a failure.

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::{millis, patience};

pub(crate) struct Connect;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    host: String,
    port: u32,
    /// In seconds.
    timeout: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    connected: bool,
    result: String,
    address: Option<String>,
    ms: f64,
}

impl Action for Connect {
    const NAME: &'static str = "connect";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let port = u16::try_from(input.port).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| {
            ActionError::invalid(format!("port {} is not one of 1 to 65535", input.port))
        })?;
        let begun = Instant::now();
        let patience = patience(cx, input.timeout);
        let opened = timeout(patience, TcpStream::connect((input.host.as_str(), port))).await;
        let ms = millis(begun.elapsed());
        let (connected, result, address) = match opened {
            Ok(Ok(stream)) => {
                let address = stream.peer_addr().ok().map(|address| address.to_string());
                (true, "connected".to_owned(), address)
            }
            Ok(Err(error)) => (false, error.to_string(), None),
            Err(_) => (
                false,
                format!("no answer within {} s", patience.as_secs_f64()),
                None,
            ),
        };
        Ok(Output {
            connected,
            result,
            address,
            ms,
        })
    }
}
