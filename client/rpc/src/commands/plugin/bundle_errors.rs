//! Hints for errors of bundles.

use muster_operations::bundle::{BundleError, BundleFileError};

use crate::outcome::error::CommandError;
use crate::session::errors::{convert_hint, is_ruby_ddl};

impl CommandError for BundleFileError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Refused(path, _) if is_ruby_ddl(path) => return vec![convert_hint(path)],
            Self::Older { .. } => "use `--downgrade` to install it anyway",
            Self::Changed(..) => {
                "move away the files to keep, run `rpc plugin remove`, then install again"
            }
            Self::NoDirectory(_) => {
                "specify the directory of `paths.ddls` in rpcd.toml; its default is /etc/muster/ddl"
            }
            Self::Refused(_, BundleError::Foreign { .. }) => {
                "`--key` accepts signatures of one key only: check which key signed the bundle"
            }
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
