//! Names and paths of the tokens in the state directory, which several parts of the daemon read and write.

use std::path::PathBuf;

use super::values::PathsConfig;

/// The node's renewed token, in the state directory.
pub const RENEWED_TOKEN_FILE: &str = "token.jwt";

impl PathsConfig {
    /// The path of a changed account token.
    pub fn account_token_path(&self) -> PathBuf {
        self.state.join("account.jwt")
    }

    /// An empty file, written when the account token was last confirmed to be the newest. Its time survives a restart, which does not confirm the
    /// token.
    pub fn confirmation_path(&self) -> PathBuf {
        self.state.join("account.confirmed")
    }

    /// The path of the node's renewed token. Its key stays in the credentials file.
    pub fn renewed_token_path(&self) -> PathBuf {
        self.state.join(RENEWED_TOKEN_FILE)
    }
}
