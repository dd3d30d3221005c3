//! The subcommands of `rpcd`.

pub mod again;
pub mod apply;
pub mod guard;
pub(crate) mod local_command;
pub mod motd;
pub mod restart;
pub mod ssh_principals;
pub mod virtual_nodes;
