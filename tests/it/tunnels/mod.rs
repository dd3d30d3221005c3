//! Tunnels to ports of nodes through the bus: a real broker, daemons and `rpc tunnel`.

mod attacks;
mod ends;
mod fixture;
mod limits;
mod policies;
mod servers;
mod transfers;
