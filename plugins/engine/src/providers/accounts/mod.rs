//! Users and groups of a machine, behind one trait with two implementations.
//!
//! - [`shadow_utils`]: this machine itself, through shadow-utils, so that whatever they trigger is triggered.
//! - [`files`]: a scratch root, whose passwd, shadow, group and gshadow are edited under shadow-utils' lock.
//!
//! Does not compare and does not decide: that is done by the types `user` and `group`.

pub mod account_name;
pub mod database;
pub mod dates;
pub mod defaults;
pub mod files;
pub mod model;
pub mod shadow_utils;
pub mod table;

use std::fmt;
use std::path::Path;

use muster_system::command::CancelFlag;
use muster_system::{System, SystemError};

use crate::error::EngineError;
use crate::resource::Resource;
pub use model::{
    CryptedPassword, GroupAccount, GroupChange, NewGroup, NewUser, ShadowEntry, UserAccount,
    UserChange,
};

/// Where users and groups are looked up and changed.
pub trait AccountProvider: fmt::Debug {
    /// One user; with `local` only if the machine's own files know it, not a directory service.
    fn find_user(&self, name: &str, local: bool) -> Result<Option<UserAccount>, AccountError>;

    /// Every user in the machine's own files.
    fn list_users(&self) -> Result<Vec<UserAccount>, AccountError>;

    /// Creates a user with all that is said about it.
    fn create_user(&self, new: &NewUser) -> Result<(), AccountError>;

    /// Changes one property.
    fn change_user(&self, name: &str, change: &UserChange) -> Result<(), AccountError>;

    /// Removes a user from everywhere; its home directory too if said so.
    fn remove_user(&self, name: &str, with_home: bool) -> Result<(), AccountError>;

    /// One group; `local` as for [`Self::find_user`].
    fn find_group(&self, name: &str, local: bool) -> Result<Option<GroupAccount>, AccountError>;

    /// Every group in the machine's own files.
    fn list_groups(&self) -> Result<Vec<GroupAccount>, AccountError>;

    /// Creates a group.
    fn create_group(&self, new: &NewGroup) -> Result<(), AccountError>;

    /// Changes one property.
    fn change_group(&self, name: &str, change: &GroupChange) -> Result<(), AccountError>;

    /// Removes a group that is nobody's primary one.
    fn remove_group(&self, name: &str) -> Result<(), AccountError>;
}

/// The right implementation for the machine.
pub fn choose_provider(system: &dyn System, cancel: CancelFlag) -> Box<dyn AccountProvider + '_> {
    if system.root() == Path::new("/") {
        Box::new(shadow_utils::ShadowUtilsProvider::new(system, cancel))
    } else {
        Box::new(files::FileAccountProvider::new(system))
    }
}

/// Why users or groups could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The machine would not.
    #[error("cannot {doing}")]
    System {
        /// What was tried.
        doing: String,
        /// The machine's word.
        #[source]
        source: SystemError,
    },
    /// What is wanted contradicts what is there, or a tool said no.
    #[error("{0}")]
    Refused(String),
}

impl AccountError {
    /// For `map_err`.
    pub(crate) fn during(doing: impl Into<String>) -> impl FnOnce(SystemError) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }

    /// The same, about a resource.
    pub fn into_engine_error(self, resource: &Resource) -> EngineError {
        match self {
            Self::System { doing, source } => {
                EngineError::during(resource, format!("cannot {doing}"))(source)
            }
            Self::Refused(problem) => EngineError::failed(resource, problem),
        }
    }
}
