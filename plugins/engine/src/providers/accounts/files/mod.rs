//! The accounts of a scratch root: its four files, edited as a whole under shadow-utils' lock.
//!
//! The programs of shadow-utils need root rights even for a scratch directory, so what they do to files is done here.
//! Does not tell anybody (no mail spool, no cache of a name service), and does not check shells: the root borrows its
//! programs from the machine it lies on.

mod groups;
mod homes;
mod users;

use std::path::Path;
use std::time::Duration;

use muster_system::{FileAttributes, System};

use super::database::AccountDatabase;
use super::defaults::AccountDefaults;
use super::table::AccountTable;
use super::{
    AccountError, AccountProvider, GroupAccount, GroupChange, NewGroup, NewUser, UserAccount,
    UserChange, dates,
};

/// The lock of `lckpwdf(3)`, which shadow-utils take too.
const PASSWD_LOCK_FILE: &str = "/etc/.pwd.lock";
/// Everybody who waits for the lock does a few milliseconds of work.
const LOCK_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest file with defaults that is read, in bytes.
const MAX_DEFAULTS_FILE_BYTES: u64 = 1024 * 1024;

/// Accounts of a scratch root.
#[derive(Debug)]
pub struct FileAccountProvider<'a> {
    system: &'a dyn System,
}

impl<'a> FileAccountProvider<'a> {
    /// Of that root.
    pub fn new(system: &'a dyn System) -> Self {
        Self { system }
    }

    fn load_database(&self) -> Result<AccountDatabase, AccountError> {
        AccountDatabase::load(self.system)
            .map_err(AccountError::during("read the users and groups"))
    }

    /// Reads, changes and writes the files; nothing is written when the change is refused.
    fn edit_database<T>(
        &self,
        change: impl FnOnce(&mut AccountDatabase) -> Result<T, AccountError>,
    ) -> Result<T, AccountError> {
        let etc = Path::new("/etc");
        if self
            .system
            .metadata(etc)
            .map_err(AccountError::during("look at /etc"))?
            .is_none()
        {
            self.system
                .create_dir(etc, &FileAttributes::default())
                .map_err(AccountError::during("create /etc"))?;
        }
        let _lock = self
            .system
            .lock_file(Path::new(PASSWD_LOCK_FILE), LOCK_TIMEOUT)
            .map_err(AccountError::during("lock the users and groups"))?;
        let before = self.load_database()?;
        let mut after = before.clone();
        let result = change(&mut after)?;
        after
            .save(self.system, &before)
            .map_err(AccountError::during("write the users and groups"))?;
        Ok(result)
    }

    fn load_defaults(&self) -> AccountDefaults {
        let text = |path: &str| {
            // Without these files the usual values hold.
            let content = self
                .system
                .read_file(Path::new(path), MAX_DEFAULTS_FILE_BYTES)
                .unwrap_or_default();
            String::from_utf8_lossy(&content).into_owned()
        };
        AccountDefaults::parse(&text("/etc/login.defs"), &text("/etc/default/useradd"))
    }

    fn current_day(&self) -> i64 {
        dates::epoch_day(self.system.now())
    }
}

impl AccountProvider for FileAccountProvider<'_> {
    fn find_user(&self, name: &str, _local: bool) -> Result<Option<UserAccount>, AccountError> {
        Ok(self.load_database()?.find_user(name))
    }

    fn list_users(&self) -> Result<Vec<UserAccount>, AccountError> {
        Ok(self.load_database()?.list_users())
    }

    fn create_user(&self, new: &NewUser) -> Result<(), AccountError> {
        let defaults = self.load_defaults();
        self.edit_database(|database| {
            let user = users::create_user(database, new, &defaults, self.current_day())?;
            if !new.managehome {
                return Ok(());
            }
            // Before the files are written: when this fails, the user is still to be created.
            homes::create_home(self.system, &user, &defaults).map_err(AccountError::during(
                format!("create the home directory {}", user.home),
            ))
        })
    }

    fn change_user(&self, name: &str, change: &UserChange) -> Result<(), AccountError> {
        let before = self.edit_database(|database| {
            users::change_user(database, name, change, self.current_day())
        })?;
        if let UserChange::Uid(uid, _) = change {
            homes::change_home_owner(self.system, &before, *uid)
                .map_err(AccountError::during(format!("hand over {}", before.home)))?;
        }
        Ok(())
    }

    fn remove_user(&self, name: &str, with_home: bool) -> Result<(), AccountError> {
        let user_groups = self.load_defaults().user_groups;
        self.edit_database(|database| {
            let user = users::require_user(database, name)?;
            // Before the user: when this fails, the user is still there to be removed again.
            if with_home && homes::is_removable(&user, &database.list_users()) {
                self.system
                    .remove_tree(Path::new(&user.home))
                    .map_err(AccountError::during("remove the home directory"))?;
            }
            users::remove_user(database, &user, user_groups)
        })
    }

    fn find_group(&self, name: &str, _local: bool) -> Result<Option<GroupAccount>, AccountError> {
        Ok(self.load_database()?.find_group(name))
    }

    fn list_groups(&self) -> Result<Vec<GroupAccount>, AccountError> {
        Ok(self.load_database()?.list_groups())
    }

    fn create_group(&self, new: &NewGroup) -> Result<(), AccountError> {
        let defaults = self.load_defaults();
        self.edit_database(|database| groups::create_group(database, new, &defaults))
    }

    fn change_group(&self, name: &str, change: &GroupChange) -> Result<(), AccountError> {
        self.edit_database(|database| groups::change_group(database, name, change))
    }

    fn remove_group(&self, name: &str) -> Result<(), AccountError> {
        self.edit_database(|database| groups::remove_group(database, name))
    }
}

/// shadow, which whoever writes must be able to read.
fn require_shadow(database: &mut AccountDatabase) -> Result<&mut AccountTable, AccountError> {
    database.shadow.as_mut().ok_or_else(|| {
        AccountError::Refused("/etc/shadow may not be read by this process".to_owned())
    })
}
