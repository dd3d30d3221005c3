//! Listens on this machine, and opens a tunnel for each connection.

use std::io;
use std::net::SocketAddr;

use muster_bus::carrier::CarriedStream;
use muster_client::InterruptListener;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::dialer::TunnelDialer;
use super::error::TunnelError;

/// What happened to the connections of a listener.
#[derive(Debug)]
pub enum TunnelConnectionEvent {
    /// It was interrupted before its tunnel was open.
    Interrupted,
    /// A connection and its tunnel ended.
    Ended(CarriedStream),
    /// No tunnel was opened, or it ended early.
    Failed(TunnelError),
    /// A connection could not be accepted.
    NotAccepted(io::Error),
}

/// Accepts connections on this machine.
#[derive(Debug)]
pub struct TunnelListener {
    listener: TcpListener,
    dialer: TunnelDialer,
}

impl TunnelListener {
    /// Listens on this address; port 0 is any free port.
    pub async fn bind(address: SocketAddr, dialer: TunnelDialer) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, dialer })
    }

    /// The address on which it listens.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections until Ctrl-C; all tunnels are closed when it returns.
    pub async fn serve_until_interrupt(self, mut observe: impl FnMut(TunnelConnectionEvent)) {
        let stop = CancellationToken::new();
        let mut interrupt = InterruptListener::listen();
        let mut tunnels = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((connection, _)) => {
                        tunnels.spawn(carry_connection(self.dialer.clone(), connection, stop.clone()));
                    }
                    Err(error) => {
                        observe(TunnelConnectionEvent::NotAccepted(error));
                        // Out of files: some must be closed before the next one can be opened.
                        if let Some(Ok(event)) = tunnels.join_next().await {
                            observe(event);
                        }
                    }
                },
                Some(Ok(event)) = tunnels.join_next() => observe(event),
                () = interrupt.wait_for_signal() => break,
            }
        }
        drop(self.listener);
        stop.cancel();
        while let Some(ended) = tunnels.join_next().await {
            if let Ok(event) = ended {
                observe(event);
            }
        }
    }
}

async fn carry_connection(
    dialer: TunnelDialer,
    mut connection: TcpStream,
    stop: CancellationToken,
) -> TunnelConnectionEvent {
    let _ = connection.set_nodelay(true);
    let opened = tokio::select! {
        opened = dialer.dial() => opened,
        () = stop.cancelled() => return TunnelConnectionEvent::Interrupted,
    };
    let tunnel = match opened {
        Ok(tunnel) => tunnel,
        Err(error) => return TunnelConnectionEvent::Failed(error),
    };
    let (reader, writer) = connection.split();
    match tunnel.carry(reader, writer, stop).await {
        Ok(carried) => TunnelConnectionEvent::Ended(carried),
        Err(error) => TunnelConnectionEvent::Failed(error),
    }
}
