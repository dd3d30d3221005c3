//! Converts a node command to a host process: program path, environment, user, umask and root.
//!
//! For a scratch root the command runs inside it: a mount namespace
//! exposes the host's programs, `/dev` and `/proc` in the root, followed by `chroot`. `/etc` is the root's own, except for
//! `/etc/alternatives`. A root with a `/usr/local`
//! and no `/usr/bin` keeps its `/usr/local` and gets the other directories of the host's `/usr`, so it can replace single programs.
//! util-linux does this, so no unsafe code is needed; without root privileges a user namespace is used.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User, geteuid};

use super::RealSystem;
use super::process::PreparedProcess;
use crate::{Command, CommandOutput, System, SystemResult};

const SETPRIV: &str = "/usr/bin/setpriv";
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Host directories mounted in a scratch root that lacks them.
const BORROWED_DIRECTORIES: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Exit code of the inner scripts for their own failures, together with a marker on standard error.
const ROOT_ENTRY_EXIT_CODE: i32 = 125;
const ROOT_ENTRY_ERROR_PREFIX: &str = "cannot enter the scratch root: ";
/// Maximum size of the passwd file that is searched for home directory and group, in bytes.
const MAX_PASSWD_BYTES: u64 = 16 * 1024 * 1024;

/// Arguments: root; `strict` if running as root, where host directories must be mounted read-only; then the command for `chroot`.
const ENTER_ROOT_SCRIPT: &str = r#"
root=$1 strict=$2 borrowed=; shift 2
fail() { echo "cannot enter the scratch root: $1" >&2; exit 125; }
borrow() {
  [ -L "$root/$1" ] && return
  [ -d "$root/$1" ] || mkdir -p "$root/$1" || fail "cannot create $1"
  case $1 in dev|proc) ;; *) [ -z "$(ls -A "$root/$1")" ] || return 0 ;; esac
  if [ "$strict" = strict ] && [ "$2" = ro ]; then
    mount --bind "/$1" "$root/$1" && mount -o remount,bind,ro "$root/$1" || fail "cannot mount /$1"
  else
    mount --rbind "/$1" "$root/$1" || fail "cannot mount /$1"
  fi
  case $1 in usr|usr/bin) borrowed=yes ;; esac
}
provide() {
  if [ -L "/$1" ]; then
    [ -e "$root/$1" ] || [ -L "$root/$1" ] || ln -sn "$(readlink "/$1")" "$root/$1" 2>/dev/null \
      || [ -L "$root/$1" ] || fail "cannot link $1"
  elif [ -d "/$1" ]; then
    borrow "$1" ro
  fi
}
for name in usr bin sbin lib lib32 lib64 libx32; do
  if [ "$name" = usr ] && [ ! -L "$root/usr" ] && [ -d "$root/usr/local" ] && [ -z "$(ls -A "$root/usr/bin" 2>/dev/null)" ]; then
    for path in /usr/*; do provide "${path#/}"; done
  else
    provide "$name"
  fi
done
# Programs of Debian and Red Hat are links by way of this directory.
if [ "$borrowed" = yes ] && [ -d /etc/alternatives ]; then borrow etc/alternatives ro; fi
borrow dev rw
borrow proc rw
exec chroot "$root" "$@"
"#;

/// Arguments: working directory, umask or empty, then the command.
const IN_ROOT_SCRIPT: &str = r#"
cd "$1" || { echo "cannot enter the scratch root: no directory $1" >&2; exit 125; }
[ -z "$2" ] || umask "$2"
shift 2
exec "$@"
"#;

pub(super) fn prepare_process(
    system: &RealSystem,
    command: &Command,
) -> SystemResult<PreparedProcess> {
    let identity = resolve_identity(system, command).map_err(command.start_error())?;
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), DEFAULT_PATH.to_owned()),
        ("LC_ALL".to_owned(), "C".to_owned()),
        ("LANG".to_owned(), "C".to_owned()),
        ("HOME".to_owned(), home_directory(system, command.uid)),
    ]);
    env.extend(command.env.clone());
    let search_path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let program =
        find_program(system, command.program_name(), search_path).map_err(command.start_error())?;
    if command.protected && identity.as_ref().is_none_or(|identity| identity.uid == 0) {
        check_program(system, Path::new(&program))?;
    }
    let mut argv = vec![program];
    argv.extend(command.argv.iter().skip(1).cloned());
    let cwd = command.cwd.clone().unwrap_or_else(|| PathBuf::from("/"));

    let has_setpriv = Path::new(SETPRIV).exists();
    let mut ids = None;
    match &identity {
        Some(identity) if has_setpriv => argv = become_user(identity, argv),
        Some(identity) if system.is_host() => ids = Some((identity.uid, identity.gid)),
        Some(_) => {
            return Err(command.start_error()(io::Error::other(
                "setpriv of util-linux is not installed",
            )));
        }
        None => {}
    }
    // The signal of the parent's death is lost when the user changes, so this command has no user of its own.
    if command.killed_with_parent && has_setpriv && identity.is_none() && system.is_host() {
        argv = [to_strings(&[SETPRIV, "--pdeathsig", "KILL", "--"]), argv].concat();
    }
    let umask = command.umask.map(|mask| format!("{:04o}", mask & 0o777));
    if system.is_host() {
        if let Some(umask) = umask {
            argv = [to_strings(&["/bin/sh", "-c", "umask \"$0\"; exec \"$@\"", &umask]), argv]
                .concat();
        }
        return Ok(PreparedProcess { argv, env, cwd, ids });
    }
    let argv = wrap_in_root(system, &cwd, &umask.unwrap_or_default(), argv)
        .map_err(command.start_error())?;
    Ok(PreparedProcess { argv, env, cwd: PathBuf::from("/"), ids: None })
}

/// Converts a failure of the wrapper scripts to an error, so that it is not attributed to the program.
pub(super) fn check_wrapper_failure(
    system: &RealSystem,
    command: &Command,
    output: CommandOutput,
) -> SystemResult<CommandOutput> {
    if system.is_host() {
        return Ok(output);
    }
    let text = output.combined_text();
    let is_root_entry_failure = output.code == ROOT_ENTRY_EXIT_CODE
        && text.lines().any(|line| line.starts_with(ROOT_ENTRY_ERROR_PREFIX));
    // unshare exits with 1 before any other program can print.
    if is_root_entry_failure || (output.code == 1 && text.starts_with("unshare: ")) {
        let source = io::Error::other(format!(
            "{}; a scratch root needs mount namespaces (util-linux unshare, and user namespaces unless root)",
            text.trim()
        ));
        return Err(command.start_error()(source));
    }
    Ok(output)
}

struct CommandIdentity {
    uid: u32,
    gid: u32,
    /// Whether passwd contains the user, so that its supplementary groups can be determined.
    has_passwd_entry: bool,
}

/// The user to run the command as; `None` for the current user.
fn resolve_identity(system: &RealSystem, command: &Command) -> io::Result<Option<CommandIdentity>> {
    if command.uid.is_none() && command.gid.is_none() {
        return Ok(None);
    }
    let euid = geteuid();
    let uid = command.uid.unwrap_or(euid.as_raw());
    if !euid.is_root() {
        // In a scratch root the process appears as root.
        let is_same_user = uid == euid.as_raw() || (!system.is_host() && uid == 0);
        let is_same_group = command.gid.is_none_or(|gid| {
            gid == nix::unistd::getegid().as_raw() || (!system.is_host() && gid == 0)
        });
        if is_same_user && is_same_group {
            return Ok(None);
        }
        let problem =
            format!("only root can run it as user {uid}; this process runs as user {euid}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let entry = passwd_entry(system, uid);
    let gid = command.gid.or(entry.as_ref().map(|entry| entry.gid)).ok_or_else(|| {
        let problem = format!("user {uid} is not in passwd; specify the group");
        io::Error::new(io::ErrorKind::InvalidInput, problem)
    })?;
    Ok(Some(CommandIdentity { uid, gid, has_passwd_entry: entry.is_some() }))
}

struct PasswdEntry {
    gid: u32,
    home: String,
}

fn passwd_entry(system: &RealSystem, uid: u32) -> Option<PasswdEntry> {
    if system.is_host() {
        let user = User::from_uid(Uid::from_raw(uid)).ok()??;
        let home = user.dir.to_str()?.to_owned();
        return Some(PasswdEntry { gid: Gid::as_raw(user.gid), home });
    }
    let passwd = system.read_file(Path::new("/etc/passwd"), MAX_PASSWD_BYTES).ok()?;
    String::from_utf8_lossy(&passwd).lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let found = fields.next()?.parse::<u32>().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1)?.to_owned();
        (found == uid).then_some(PasswdEntry { gid, home })
    })
}

fn home_directory(system: &RealSystem, uid: Option<u32>) -> String {
    let uid = uid.unwrap_or_else(|| if system.is_host() { geteuid().as_raw() } else { 0 });
    passwd_entry(system, uid)
        .map(|entry| entry.home)
        .filter(|home| !home.is_empty())
        .unwrap_or_else(|| (if uid == 0 { "/root" } else { "/" }).to_owned())
}

/// Node path of the program. Resolved here, so that a missing program is an error instead of an exit code.
fn find_program(system: &RealSystem, program: &str, search_path: &str) -> io::Result<String> {
    let candidates: Vec<String> = if program.contains('/') {
        vec![program.to_owned()]
    } else {
        search_path.split(':').map(|directory| format!("{directory}/{program}")).collect()
    };
    let mut error_kind = io::ErrorKind::NotFound;
    for candidate in candidates {
        match is_executable(system, Path::new(&candidate)) {
            Some(true) => return Ok(candidate),
            Some(false) => error_kind = io::ErrorKind::PermissionDenied,
            None => {}
        }
    }
    Err(error_kind.into())
}

/// Whether the file is executable; `None` if it does not exist.
fn is_executable(system: &RealSystem, program: &Path) -> Option<bool> {
    let mut paths = vec![system.resolve_host_path(program, true).ok()?];
    let first = program.components().nth(1)?.as_os_str().to_str()?;
    if !system.is_host() && BORROWED_DIRECTORIES.contains(&first) {
        paths.push(program.to_owned());
    }
    paths.iter().find_map(|path| {
        let found = path.metadata().ok()?;
        found.is_file().then(|| found.permissions().mode() & 0o111 != 0)
    })
}

/// Fails if another user can change the program. A scratch root borrows programs of the host.
fn check_program(system: &RealSystem, program: &Path) -> SystemResult<()> {
    match system.check_protected(program) {
        Err(error) if error.is_not_found() && !system.is_host() => {
            RealSystem::new("/".into()).check_protected(program)
        }
        checked => checked,
    }
}

fn become_user(identity: &CommandIdentity, argv: Vec<String>) -> Vec<String> {
    let groups = if identity.has_passwd_entry { "--init-groups" } else { "--clear-groups" };
    let (uid, gid) = (format!("--reuid={}", identity.uid), format!("--regid={}", identity.gid));
    [to_strings(&[SETPRIV, &uid, &gid, groups, "--"]), argv].concat()
}

fn wrap_in_root(
    system: &RealSystem,
    cwd: &Path,
    umask: &str,
    argv: Vec<String>,
) -> io::Result<Vec<String>> {
    let not_utf8 = || io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8");
    let root = system.root().to_str().ok_or_else(not_utf8)?;
    let cwd = cwd.to_str().ok_or_else(not_utf8)?;
    let user_namespace: &[&str] =
        if geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
    let strict = if geteuid().is_root() { "strict" } else { "mapped" };
    Ok([
        to_strings(&["/usr/bin/unshare", "--mount"]),
        to_strings(user_namespace),
        to_strings(&["--", "/bin/sh", "-c", ENTER_ROOT_SCRIPT, "enter", root, strict]),
        to_strings(&["/bin/sh", "-c", IN_ROOT_SCRIPT, "inside", cwd, umask]),
        argv,
    ]
    .concat())
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
