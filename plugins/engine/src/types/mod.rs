//! One file per resource type, and the list of them all.

pub mod cron;
pub mod exec;
pub mod file;
pub mod filebucket;
pub mod group;
pub mod host;
pub mod mailalias;
pub mod mount;
pub mod notify;
pub mod package;
mod purge_keys;
pub mod resources;
pub mod schedule;
pub mod service;
pub mod ssh_authorized_key;
pub mod sshkey;
pub mod stage;
pub mod tidy;
pub mod user;

use crate::resource_type::ResourceType;

/// Every type that this engine knows, sorted by name.
pub fn all() -> Vec<Box<dyn ResourceType>> {
    vec![
        Box::new(cron::Cron),
        Box::new(exec::Exec),
        Box::new(file::File),
        Box::new(filebucket::Filebucket),
        Box::new(group::Group),
        Box::new(host::Host),
        Box::new(mailalias::Mailalias),
        Box::new(mount::Mount),
        Box::new(notify::Notify),
        Box::new(package::Package),
        Box::new(resources::Resources),
        Box::new(schedule::Schedule),
        Box::new(service::Service),
        Box::new(ssh_authorized_key::SshAuthorizedKey),
        Box::new(sshkey::Sshkey),
        Box::new(stage::Stage),
        Box::new(tidy::Tidy),
        Box::new(user::User),
    ]
}
