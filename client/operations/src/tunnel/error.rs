//! Why a tunnel is not opened, or ended early.

use muster_base::NodeText;
use muster_bus::stream::{ResetReason, StreamEnd, StreamKeyError};
use muster_calls::{BusError, ClientError};
use muster_wire::identity::Identity;

/// Why a tunnel is not opened, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// The node refused.
    #[error("{node} opened no tunnel to port {port}: {}", message.line())]
    Refused {
        /// The node.
        node: Identity,
        /// The port.
        port: u16,
        /// The node's message.
        message: NodeText,
    },
    /// The node is not connected.
    #[error("{0} is not connected to the broker")]
    Absent(Identity),
    /// The node did not answer.
    #[error("{0} did not answer the request for a tunnel")]
    Silent(Identity),
    /// The answer has no usable outputs.
    #[error("the answer of {node} to the request for a tunnel cannot be read")]
    Reply {
        /// The node.
        node: Identity,
        /// The error.
        source: serde_json::Error,
    },
    /// The answer has no usable key, or none can be made.
    #[error("cannot make the keys of a tunnel")]
    Key(#[from] StreamKeyError),
    /// The request cannot be sent.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The connection to the broker failed.
    #[error("cannot subscribe to the subject of the tunnel")]
    Bus(#[from] BusError),
    /// It ended early.
    #[error("the tunnel to port {port} of {node} ended early: {}", describe_end(*end))]
    Ended {
        /// The node.
        node: Identity,
        /// The port.
        port: u16,
        /// How it ended.
        end: StreamEnd,
    },
}

impl TunnelError {
    /// Whether the broker refused a subject of the tunnel.
    pub fn is_broker_refusal(&self) -> bool {
        let Self::Ended { end, .. } = self else { return false };
        matches!(
            end,
            StreamEnd::Reset(ResetReason::Refused) | StreamEnd::ResetByPeer(ResetReason::Refused)
        )
    }
}

fn describe_end(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Complete => "it is complete",
        StreamEnd::Reset(reason) => match reason {
            ResetReason::Connection => "the local connection failed",
            ResetReason::Idle => "it carried no data for too long",
            ResetReason::Stopped => "it was interrupted",
            ResetReason::Silent => "the node was silent for too long",
            ResetReason::Protocol => {
                "the messages of the node cannot be read; it may have another version"
            }
            ResetReason::Broker => "the connection to the broker failed",
            ResetReason::Refused => "the broker does not permit this caller to use tunnels",
            ResetReason::Absent => {
                "the node lost its connection to the broker, or its daemon ended"
            }
            ResetReason::Other => "for an unknown reason",
        },
        StreamEnd::ResetByPeer(reason) => match reason {
            ResetReason::Connection => "the server on the node closed its connection with an error",
            ResetReason::Idle => "it carried no data for longer than the node allows",
            ResetReason::Stopped => "the daemon on the node stops",
            ResetReason::Silent => "the node received nothing from here for too long",
            ResetReason::Protocol => {
                "the node cannot read the messages of this end; it may have another version"
            }
            ResetReason::Broker => "the node lost its connection to the broker",
            ResetReason::Refused => "the broker does not permit the node to use tunnels",
            ResetReason::Absent => "the node noticed that this end was not connected to the broker",
            ResetReason::Other => "the node gives no known reason",
        },
    }
}
