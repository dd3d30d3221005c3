//! `ssh` and `ssh_ca`: logins with SSH user certificates. `ssh` is on nodes, and its policy decides each login; `ssh_ca` is on a host that has the authority's key.
//!
//! The daemon asks the policy when sshd asks the daemon, so nothing here opens a socket. Both are disabled unless the configuration enables them.

mod authority;
mod login;

pub use authority::{AuthorityOptions, SshCaPlugin};
pub use login::{LoginOptions, SshPlugin};
