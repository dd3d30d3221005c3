//! `connect`: opens a TCP connection and closes it. A closed port is a successful reply, not a failure.

use muster_api::{ActionError, CallContext, NoState};
use muster_contract::nettest::{NettestConnectInput, NettestConnectOutput};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::{effective_timeout, round_millis};

pub(crate) async fn connect_port(
    _: NoState,
    cx: CallContext,
    input: NettestConnectInput,
) -> Result<NettestConnectOutput, ActionError> {
    let port = u16::try_from(input.port).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| {
        ActionError::invalid_input(format!("port {} is not between 1 and 65535", input.port))
    })?;
    let started_at = Instant::now();
    let time_limit = effective_timeout(&cx, input.timeout);
    let connection = timeout(time_limit, TcpStream::connect((input.host.as_str(), port))).await;
    let ms = round_millis(started_at.elapsed());
    let (connected, result, address) = match connection {
        Ok(Ok(stream)) => {
            let address = stream.peer_addr().ok().map(|address| address.to_string());
            (true, "connected".to_owned(), address)
        }
        Ok(Err(error)) => (false, error.to_string(), None),
        Err(_) => (false, format!("no connection within {} s", time_limit.as_secs_f64()), None),
    };
    Ok(NettestConnectOutput { connected, result, address, ms })
}
