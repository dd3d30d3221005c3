//! Accounts of the local machine through shadow-utils: one argument array per operation, passwords on standard input only.
//!
//! Flags and their order follow Puppet's `useradd` and `groupadd` providers. Reading needs no program, except for a
//! name missing from the machine's files, which is looked up in the name service.

use std::path::Path;

use muster_system::command::CancelFlag;
use muster_system::{Command, FileEntryKind, System};

use super::database;
use super::{
    AccountError, AccountProvider, CryptedPassword, GroupAccount, GroupChange, NewGroup, NewUser,
    Result, UserAccount, UserChange,
};
use crate::providers::paths;

/// Exit code of `getent` for an unknown name.
const GETENT_NOT_FOUND: i32 = 2;

/// The program and the option that change each property of a user.
const USER_OPTIONS: [(&str, [&str; 2]); 10] = [
    ("uid", ["usermod", "-u"]),
    ("gid", ["usermod", "-g"]),
    ("comment", ["usermod", "-c"]),
    ("home", ["usermod", "-d"]),
    ("shell", ["usermod", "-s"]),
    ("groups", ["usermod", "-G"]),
    ("expiry", ["usermod", "-e"]),
    ("password_min_age", ["chage", "-m"]),
    ("password_max_age", ["chage", "-M"]),
    ("password_warn_days", ["chage", "-W"]),
];

/// Accounts of the local machine.
#[derive(Debug)]
pub struct ShadowUtilsProvider<'a> {
    pub(super) system: &'a dyn System,
    pub(super) cancel: CancelFlag,
}

impl ShadowUtilsProvider<'_> {
    fn query_getent(&self, database: &str, name: &str) -> Result<Option<Vec<String>>> {
        let command = self.build_command(&["getent", "--", database, name]);
        let output = match self.system.run_command(&command) {
            // A machine without getent uses its files only.
            Err(error) if error.is_not_found() => return Ok(None),
            result => result.map_err(AccountError::during("query the name service"))?,
        };
        match output.code {
            0 => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let line = text.lines().next().unwrap_or_default();
                Ok(Some(line.split(':').map(str::to_owned).collect()))
            }
            GETENT_NOT_FOUND => Ok(None),
            code => Err(tool_error("getent", code, &output.combined_text())),
        }
    }

    fn build_command<S: AsRef<str>>(&self, argv: &[S]) -> Command {
        let mut command = Command::new(argv.iter().map(|word| word.as_ref().to_owned()));
        command.cancel = self.cancel.clone();
        command
    }

    fn run_tool<S: AsRef<str>>(&self, argv: &[S]) -> Result<()> {
        self.run_command(&self.build_command(argv))
    }

    fn run_command(&self, command: &Command) -> Result<()> {
        let program = command.program_name();
        let output = self
            .system
            .run_command(command)
            .map_err(AccountError::during(format!("run `{program}`")))?;
        if output.is_success() {
            return Ok(());
        }
        Err(tool_error(program, output.code, &output.combined_text()))
    }

    /// Uses standard input, because arguments are readable by all local users.
    fn set_password(&self, name: &str, password: &CryptedPassword) -> Result<()> {
        let mut command = self.build_command(&["chpasswd", "-e"]);
        command.stdin = format!("{name}:{}\n", password.expose()).into_bytes();
        self.run_command(&command)
    }

    fn check_shell(&self, shell: &str) -> Result<()> {
        let found = paths::follow_links(self.system, Path::new(shell))
            .map_err(AccountError::during("inspect the shell"))?;
        match found {
            Some(found) if found.kind == FileEntryKind::File && found.mode & 0o111 != 0 => Ok(()),
            Some(_) => Err(AccountError::Refused(format!("Shell {shell} must be executable"))),
            None => Err(AccountError::Refused(format!("Shell {shell} must exist"))),
        }
    }
}

impl AccountProvider for ShadowUtilsProvider<'_> {
    fn system(&self) -> &dyn System {
        self.system
    }

    fn find_user(&self, name: &str, local: bool) -> Result<Option<UserAccount>> {
        let found = self.load_database()?.find_user(name);
        if found.is_some() || local {
            return Ok(found);
        }
        Ok(self.query_getent("passwd", name)?.and_then(|entry| database::parse_user(&entry, None)))
    }

    fn create_user(&self, new: &NewUser) -> Result<()> {
        if let Some(shell) = &new.shell {
            self.check_shell(shell)?;
        }
        // useradd fails if it should create a user group that already exists.
        let own_group = new.gid.is_none() && self.find_group(&new.name, false)?.is_some();
        self.run_tool(&useradd_arguments(new, own_group))?;
        if let Some(password) = &new.password {
            self.set_password(&new.name, password)?;
        }
        chage_arguments(new).map_or(Ok(()), |argv| self.run_tool(&argv))
    }

    fn change_user(&self, name: &str, change: &UserChange) -> Result<()> {
        let (property, value, allowdupe) = match change {
            UserChange::Password(password) => return self.set_password(name, password),
            UserChange::Property { name, value, allowdupe } => (name, value, *allowdupe),
        };
        if property == "shell" {
            self.check_shell(value)?;
        }
        let option = USER_OPTIONS.iter().find(|(known, _)| *known == property);
        let Some((_, [program, flag])) = option else { return Ok(()) };
        let mut argv = vec![*program, *flag, value];
        argv.extend((property == "uid" && allowdupe).then_some("-o"));
        argv.push(name);
        self.run_tool(&argv)
    }

    fn remove_user(&self, name: &str, with_home: bool) -> Result<()> {
        let mut argv = vec!["userdel"];
        argv.extend(with_home.then_some("-r"));
        argv.push(name);
        self.run_tool(&argv)
    }

    fn find_group(&self, name: &str, local: bool) -> Result<Option<GroupAccount>> {
        let found = self.load_database()?.find_group(name);
        if found.is_some() || local {
            return Ok(found);
        }
        Ok(self.query_getent("group", name)?.and_then(|entry| database::parse_group(&entry)))
    }

    fn create_group(&self, new: &NewGroup) -> Result<()> {
        let gid = new.gid.map(|gid| gid.to_string());
        let mut argv = vec!["groupadd"];
        argv.extend(gid.iter().flat_map(|gid| ["-g", gid]));
        argv.extend(new.allowdupe.then_some("-o"));
        argv.extend(new.system.then_some("-r"));
        argv.push(&new.name);
        self.run_tool(&argv)?;
        if new.members.is_empty() {
            return Ok(());
        }
        self.change_group(&new.name, &GroupChange::Members(new.members.clone()))
    }

    fn change_group(&self, name: &str, change: &GroupChange) -> Result<()> {
        match change {
            GroupChange::Gid(gid, allowdupe) => {
                let gid = gid.to_string();
                let mut argv = vec!["groupmod", "-g", &gid];
                argv.extend(allowdupe.then_some("-o"));
                argv.push(name);
                self.run_tool(&argv)
            }
            GroupChange::Members(members) => {
                self.run_tool(&["gpasswd", "-M", &members.join(","), name])
            }
        }
    }

    fn remove_group(&self, name: &str) -> Result<()> {
        self.run_tool(&["groupdel", name])
    }
}

/// Empty values are omitted, as in Puppet.
fn useradd_arguments(new: &NewUser, own_group: bool) -> Vec<String> {
    let mut argv = vec!["useradd".to_owned()];
    let mut option = |flag: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            argv.extend([flag.to_owned(), value.to_owned()]);
        }
    };
    option("-g", own_group.then_some(new.name.as_str()));
    option("-c", new.comment.as_deref());
    option("-e", new.expiry.as_deref());
    option("-g", new.gid.as_deref());
    option("-G", Some(&new.groups.join(",")));
    option("-d", new.home.as_deref());
    option("-s", new.shell.as_deref());
    option("-u", new.uid.map(|uid| uid.to_string()).as_deref());
    argv.extend(new.allowdupe.then(|| "-o".to_owned()));
    argv.push(if new.managehome { "-m" } else { "-M" }.to_owned());
    argv.extend(new.system.then(|| "-r".to_owned()));
    argv.push(new.name.clone());
    argv
}

/// Arguments that set the ageing of a new user; `None` if nothing is set.
fn chage_arguments(new: &NewUser) -> Option<Vec<String>> {
    let ages = [("-m", new.min_age), ("-M", new.max_age), ("-W", new.warn_days)];
    let options: Vec<String> = ages
        .into_iter()
        .filter_map(|(flag, days)| days.map(|days| [flag.to_owned(), days.to_string()]))
        .flatten()
        .collect();
    (!options.is_empty())
        .then(|| [vec!["chage".to_owned()], options, vec![new.name.clone()]].concat())
}

fn tool_error(program: &str, code: i32, output: &str) -> AccountError {
    AccountError::Refused(format!("`{program}` ended with code {code}: {}", output.trim()))
}
