//! Tunnels to ports of nodes through the bus: a real broker, daemons and `rpc tunnel`.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

mod attacks;
mod ends;
mod fixture;
mod limits;
mod policies;
mod servers;
mod transfers;
