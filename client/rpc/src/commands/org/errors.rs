//! Hints for errors of an organisation's directory and of its broker.

use muster_organisation::{OfflineCertificateError, OrganisationError, PushError};

use crate::outcome::error::CommandError;

impl CommandError for OrganisationError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoDirectory => "specify the directory with `--org DIR` or MUSTER_ORG",
            Self::NotAnOrganisation(..) => "run `rpc org init DIR` to create one",
            Self::NotEmpty(..) => "choose a directory that is empty or does not exist yet",
            Self::Duplicate { .. } => {
                "use `--renew` to issue additional credentials; run `rpc org revoke` to revoke the old ones"
            }
            Self::NameOfOther { .. } => {
                "policies identify principals by name: choose another name, or revoke the principal that has it"
            }
            Self::Enrolled(..) => {
                "run `rpc org revoke NAME` to revoke the node; after that `rpc org add` accepts the name"
            }
            Self::NotRevoked(..) => {
                "run `rpc org revoke NAME` first: two valid keys must not have the same name"
            }
            Self::Unprotected(..) => "choose a directory whose path only root and you can change",
            Self::Configured(_) => {
                "use `--renew` to replace it, or choose another directory to keep it"
            }
            Self::PlainText => {
                "to use TLS, create an organisation with `rpc org init` without `--no-tls`"
            }
            Self::Unknown(_) => "run `rpc org list` for all issued credentials",
            Self::Ambiguous { .. } => "select one with `--kind`",
            Self::TooManyRevocations { .. } => {
                "revocations of expired tokens are removed automatically: issue credentials of nodes with `--expires 90d`, or create a new organisation"
            }
            Self::NoLeafCredentials { .. } | Self::UnknownLeaf(_) => {
                "run `rpc org add leaf NAME --host HOST`; with `--renew` if it was added before"
            }
            Self::NoSshAuthority => "run `rpc org ssh-ca create` to create it",
            Self::NoStorage => "run `rpc org push` to create it",
            Self::NoNewcomers => "run `rpc org newcomers` to create it",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

impl CommandError for OfflineCertificateError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Organisation(error) => error.hints(),
            Self::NoAuthority => OrganisationError::NoSshAuthority.hints(),
            Self::NoCredentials(name) => {
                vec![format!("run `rpc org add user {name}` to create credentials")]
            }
            Self::Issue(_) => Vec::new(),
        }
    }
}

impl CommandError for PushError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Organisation(error) => error.hints(),
            Self::Bus(_) => {
                vec!["check that the broker is running; `rpc broker run` starts it".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}
