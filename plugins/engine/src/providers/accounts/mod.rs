//! Users and groups of a machine: one trait with two implementations.
//!
//! - [`shadow_utils`]: the local machine, through shadow-utils, so their hooks run.
//! - [`files`]: a scratch root; edits passwd, shadow, group and gshadow under shadow-utils' lock.
//!
//! Comparison and decisions are in the types `user` and `group`.

pub mod account_name;
pub mod choice;
pub mod database;
pub mod dates;
pub mod defaults;
pub mod files;
pub mod model;
pub mod shadow_utils;
pub mod table;

use std::fmt;

use muster_system::{System, SystemError};

use crate::error::EngineError;
use crate::resource::Resource;
use database::AccountDatabase;
pub use model::{
    CryptedPassword, GroupAccount, GroupChange, NewGroup, NewUser, ShadowEntry, UserAccount,
    UserChange,
};

pub trait AccountProvider: fmt::Debug {
    fn system(&self) -> &dyn System;

    /// Reads the machine's own files.
    fn load_database(&self) -> Result<AccountDatabase> {
        AccountDatabase::load(self.system())
            .map_err(AccountError::during("read the users and groups"))
    }

    /// Looks up a user; with `local`, only in the machine's own files, not in a directory service.
    fn find_user(&self, name: &str, _local: bool) -> Result<Option<UserAccount>> {
        Ok(self.load_database()?.find_user(name))
    }

    /// All users in the machine's own files.
    fn list_users(&self) -> Result<Vec<UserAccount>> {
        Ok(self.load_database()?.list_users())
    }

    fn create_user(&self, new: &NewUser) -> Result<()>;

    fn change_user(&self, name: &str, change: &UserChange) -> Result<()>;

    /// Removes a user from all files, and its home directory if `with_home` is set.
    fn remove_user(&self, name: &str, with_home: bool) -> Result<()>;

    /// Looks up a group; `local` as for [`Self::find_user`].
    fn find_group(&self, name: &str, _local: bool) -> Result<Option<GroupAccount>> {
        Ok(self.load_database()?.find_group(name))
    }

    /// All groups in the machine's own files.
    fn list_groups(&self) -> Result<Vec<GroupAccount>> {
        Ok(self.load_database()?.list_groups())
    }

    fn create_group(&self, new: &NewGroup) -> Result<()>;

    fn change_group(&self, name: &str, change: &GroupChange) -> Result<()>;

    /// Removes a group that is not the primary group of any user.
    fn remove_group(&self, name: &str) -> Result<()>;
}

pub type Result<T, E = AccountError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("cannot {operation}")]
    System {
        operation: String,
        #[source]
        source: SystemError,
    },
    /// The request conflicts with the current state, or a tool rejected it.
    #[error("{0}")]
    Refused(String),
}

impl AccountError {
    /// Adds the operation to a system error; for `map_err`.
    pub(crate) fn during(operation: impl Into<String>) -> impl FnOnce(SystemError) -> Self {
        let operation = operation.into();
        move |source| Self::System { operation, source }
    }

    pub fn into_engine_error(self, resource: &Resource) -> EngineError {
        match self {
            Self::System { operation, source } => {
                EngineError::system(resource, format_args!("cannot {operation}"), source)
            }
            Self::Refused(problem) => EngineError::failed(resource, problem),
        }
    }
}
