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

use muster_system::{Attributes, System};

use super::database::Database;
use super::defaults::Defaults;
use super::table::Table;
use super::{
    AccountError, Accounts, Group, GroupChange, NewGroup, NewUser, User, UserChange, dates,
};

/// The lock of `lckpwdf(3)`, which shadow-utils take too.
const LOCK: &str = "/etc/.pwd.lock";
/// Everybody who waits for the lock does a few milliseconds of work.
const PATIENCE: Duration = Duration::from_mins(1);
/// Longest file with defaults that is read, in bytes.
const DEFAULTS_LIMIT: u64 = 1024 * 1024;

/// Accounts of a scratch root.
#[derive(Debug)]
pub struct Files<'a> {
    system: &'a dyn System,
}

impl<'a> Files<'a> {
    /// Of that root.
    pub fn new(system: &'a dyn System) -> Self {
        Self { system }
    }

    fn database(&self) -> Result<Database, AccountError> {
        Database::load(self.system).map_err(AccountError::during("read the users and groups"))
    }

    /// Reads, changes and writes the files; nothing is written when the change is refused.
    fn edit<T>(
        &self,
        change: impl FnOnce(&mut Database) -> Result<T, AccountError>,
    ) -> Result<T, AccountError> {
        let etc = Path::new("/etc");
        if self
            .system
            .metadata(etc)
            .map_err(AccountError::during("look at /etc"))?
            .is_none()
        {
            self.system
                .create_dir(etc, &Attributes::default())
                .map_err(AccountError::during("create /etc"))?;
        }
        let _lock = self
            .system
            .lock(Path::new(LOCK), PATIENCE)
            .map_err(AccountError::during("lock the users and groups"))?;
        let before = self.database()?;
        let mut after = before.clone();
        let result = change(&mut after)?;
        after
            .save(self.system, &before)
            .map_err(AccountError::during("write the users and groups"))?;
        Ok(result)
    }

    fn defaults(&self) -> Defaults {
        let text = |path: &str| {
            // Without these files the usual values hold.
            let content = self
                .system
                .read(Path::new(path), DEFAULTS_LIMIT)
                .unwrap_or_default();
            String::from_utf8_lossy(&content).into_owned()
        };
        Defaults::parse(&text("/etc/login.defs"), &text("/etc/default/useradd"))
    }

    fn today(&self) -> i64 {
        dates::day_of(self.system.now())
    }
}

impl Accounts for Files<'_> {
    fn user(&self, name: &str, _local: bool) -> Result<Option<User>, AccountError> {
        Ok(self.database()?.user(name))
    }

    fn users(&self) -> Result<Vec<User>, AccountError> {
        Ok(self.database()?.users())
    }

    fn create_user(&self, new: &NewUser) -> Result<(), AccountError> {
        let defaults = self.defaults();
        self.edit(|database| {
            let user = users::create(database, new, &defaults, self.today())?;
            if !new.managehome {
                return Ok(());
            }
            // Before the files are written: when this fails, the user is still to be created.
            homes::create(self.system, &user, &defaults).map_err(AccountError::during(format!(
                "create the home directory {}",
                user.home
            )))
        })
    }

    fn change_user(&self, name: &str, change: &UserChange) -> Result<(), AccountError> {
        let before = self.edit(|database| users::change(database, name, change, self.today()))?;
        if let UserChange::Uid(uid, _) = change {
            homes::hand_over(self.system, &before, *uid)
                .map_err(AccountError::during(format!("hand over {}", before.home)))?;
        }
        Ok(())
    }

    fn remove_user(&self, name: &str, with_home: bool) -> Result<(), AccountError> {
        let user_groups = self.defaults().user_groups;
        self.edit(|database| {
            let user = users::known(database, name)?;
            // Before the user: when this fails, the user is still there to be removed again.
            if with_home && homes::is_removable(&user, &database.users()) {
                self.system
                    .remove_tree(Path::new(&user.home))
                    .map_err(AccountError::during("remove the home directory"))?;
            }
            users::remove(database, &user, user_groups)
        })
    }

    fn group(&self, name: &str, _local: bool) -> Result<Option<Group>, AccountError> {
        Ok(self.database()?.group(name))
    }

    fn groups(&self) -> Result<Vec<Group>, AccountError> {
        Ok(self.database()?.groups())
    }

    fn create_group(&self, new: &NewGroup) -> Result<(), AccountError> {
        let defaults = self.defaults();
        self.edit(|database| groups::create(database, new, &defaults))
    }

    fn change_group(&self, name: &str, change: &GroupChange) -> Result<(), AccountError> {
        self.edit(|database| groups::change(database, name, change))
    }

    fn remove_group(&self, name: &str) -> Result<(), AccountError> {
        self.edit(|database| groups::remove(database, name))
    }
}

/// shadow, which whoever writes must be able to read.
fn shadow(database: &mut Database) -> Result<&mut Table, AccountError> {
    database.shadow.as_mut().ok_or_else(|| {
        AccountError::Refused("/etc/shadow may not be read by this process".to_owned())
    })
}
