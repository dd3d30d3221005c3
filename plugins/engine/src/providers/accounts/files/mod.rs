//! Accounts of a scratch root: edits the four account files as a whole under shadow-utils' lock.
//!
//! shadow-utils programs require root privileges even for a scratch directory, so their file changes are reimplemented here.
//! No side effects (mail spool, name service cache), and no shell checks: the root uses the programs
//! of its host.

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
    AccountError, AccountProvider, GroupChange, NewGroup, NewUser, Result, UserChange, dates,
};
use crate::providers::paths;

/// The lock of `lckpwdf(3)`, which shadow-utils also take.
const PASSWD_LOCK_FILE: &str = "/etc/.pwd.lock";
/// Each holder keeps the lock for a few milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_DEFAULTS_FILE_BYTES: u64 = 1024 * 1024;

/// Accounts of a scratch root.
#[derive(Debug)]
pub struct FileAccountProvider<'a> {
    pub(super) system: &'a dyn System,
}

impl FileAccountProvider<'_> {
    /// Reads, changes and writes the files; writes nothing if the change is rejected.
    fn edit_database<T>(
        &self,
        change: impl FnOnce(&mut AccountDatabase) -> Result<T>,
    ) -> Result<T> {
        paths::create_dirs(self.system, Path::new("/etc"), &FileAttributes::default())
            .map_err(AccountError::during("create /etc"))?;
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
            // If these files are missing, the built-in defaults apply.
            let content =
                self.system.read_file(Path::new(path), MAX_DEFAULTS_FILE_BYTES).unwrap_or_default();
            String::from_utf8_lossy(&content).into_owned()
        };
        AccountDefaults::parse(&text("/etc/login.defs"), &text("/etc/default/useradd"))
    }

    fn current_day(&self) -> i64 {
        dates::epoch_day(self.system.now())
    }
}

impl AccountProvider for FileAccountProvider<'_> {
    fn system(&self) -> &dyn System {
        self.system
    }

    fn create_user(&self, new: &NewUser) -> Result<()> {
        let defaults = self.load_defaults();
        self.edit_database(|database| {
            let user = users::create_user(database, new, &defaults, self.current_day())?;
            if !new.managehome {
                return Ok(());
            }
            // Before the files are written, so that after a failure the user is still missing and the next run retries.
            homes::create_home(self.system, &user, &defaults)
                .map_err(AccountError::during(format!("create the home directory {}", user.home)))
        })
    }

    fn change_user(&self, name: &str, change: &UserChange) -> Result<()> {
        let before = self.edit_database(|database| {
            users::change_user(database, name, change, self.current_day())
        })?;
        if let UserChange::Property { name, value, .. } = change
            && name == "uid"
            && let Ok(uid) = value.parse()
        {
            homes::change_home_owner(self.system, &before, uid)
                .map_err(AccountError::during(format!("change the owner of {}", before.home)))?;
        }
        Ok(())
    }

    fn remove_user(&self, name: &str, with_home: bool) -> Result<()> {
        let user_groups = self.load_defaults().user_groups;
        self.edit_database(|database| {
            let user = users::require_user(database, name)?;
            // Before the user entry, so that after a failure the user still exists and the next run retries.
            if with_home && homes::is_removable(&user, &database.list_users()) {
                self.system
                    .remove_tree(Path::new(&user.home))
                    .map_err(AccountError::during("remove the home directory"))?;
            }
            users::remove_user(database, &user, user_groups)
        })
    }

    fn create_group(&self, new: &NewGroup) -> Result<()> {
        let defaults = self.load_defaults();
        self.edit_database(|database| groups::create_group(database, new, &defaults))
    }

    fn change_group(&self, name: &str, change: &GroupChange) -> Result<()> {
        self.edit_database(|database| groups::change_group(database, name, change))
    }

    fn remove_group(&self, name: &str) -> Result<()> {
        self.edit_database(|database| groups::remove_group(database, name))
    }
}

/// The shadow file; required for any write.
fn require_shadow(database: &mut AccountDatabase) -> Result<&mut AccountTable> {
    database.shadow.as_mut().ok_or_else(|| {
        AccountError::Refused("this process is not permitted to read /etc/shadow".to_owned())
    })
}
