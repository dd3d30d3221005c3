//! `rpc do`: the help of agents and actions.

pub mod output;
