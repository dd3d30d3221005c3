//! Turns a command of the node into a process of the host: the program's place, environment, user, mask and root.
//!
//! On this machine itself that is little. For a scratch root the command runs inside it: a mount namespace of its own
//! in which the host's programs, `/dev` and `/proc` are seen in the root, then `chroot`. `/etc` stays the root's own.
//! util-linux does the work, so that nothing here is unsafe; without root rights a user namespace makes it possible.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User, geteuid};

use super::RealSystem;
use super::process::Prepared;
use crate::{Command, Output, System, SystemError};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What a scratch root borrows from the host when it has none of its own.
const BORROWED: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// How the inner scripts end when they themselves failed, together with the mark on standard error.
const FAILED: i32 = 125;
const MARK: &str = "cannot enter the scratch root: ";
/// Longest passwd file that is searched for a home and a group.
const PASSWD_LIMIT: u64 = 16 * 1024 * 1024;

/// Arguments: root, `strict` when we are root and the host's trees must be made read-only, then the command for `chroot`.
const ENTER: &str = r#"
root=$1 strict=$2; shift 2
fail() { echo "cannot enter the scratch root: $1" >&2; exit 125; }
borrow() {
  [ -L "$root/$1" ] && return
  mkdir -p "$root/$1" || fail "cannot create $1"
  case $1 in dev|proc) ;; *) [ -z "$(ls -A "$root/$1")" ] || return 0 ;; esac
  if [ "$strict" = strict ] && [ "$2" = ro ]; then
    mount --bind "/$1" "$root/$1" && mount -o remount,bind,ro "$root/$1" || fail "cannot mount /$1"
  else
    mount --rbind "/$1" "$root/$1" || fail "cannot mount /$1"
  fi
}
for name in usr bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$name" ]; then
    [ -e "$root/$name" ] || [ -L "$root/$name" ] || ln -sn "$(readlink "/$name")" "$root/$name" 2>/dev/null \
      || [ -L "$root/$name" ] || fail "cannot link $name"
  elif [ -d "/$name" ]; then
    borrow "$name" ro
  fi
done
borrow dev rw
borrow proc rw
exec chroot "$root" "$@"
"#;

/// Arguments: working directory, mask or nothing, then the command.
const INSIDE: &str = r#"
cd "$1" || { echo "cannot enter the scratch root: no directory $1" >&2; exit 125; }
[ -z "$2" ] || umask "$2"
shift 2
exec "$@"
"#;

/// Makes the process.
pub(super) fn prepare(system: &RealSystem, command: &Command) -> Result<Prepared, SystemError> {
    let start = |source| SystemError::Start {
        program: command.program().to_owned(),
        source,
    };
    let who = identity(system, command).map_err(start)?;
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), PATH.to_owned()),
        ("LC_ALL".to_owned(), "C".to_owned()),
        ("LANG".to_owned(), "C".to_owned()),
        ("HOME".to_owned(), home(system, command.uid)),
    ]);
    env.extend(command.env.clone());
    let search = env.get("PATH").map_or(PATH, String::as_str);
    let program = find(system, command.program(), search).map_err(start)?;
    let mut argv = vec![program];
    argv.extend(command.argv.iter().skip(1).cloned());
    let cwd = command.cwd.clone().unwrap_or_else(|| PathBuf::from("/"));

    let setpriv = Path::new("/usr/bin/setpriv").exists();
    let mut ids = None;
    match &who {
        Some(who) if setpriv => argv = become_user(who, argv),
        Some(who) if system.is_host() => ids = Some((who.uid, who.gid)),
        Some(_) => {
            return Err(start(io::Error::other(
                "setpriv of util-linux is not installed",
            )));
        }
        None => {}
    }
    let umask = command.umask.map(|mask| format!("{:04o}", mask & 0o777));
    if system.is_host() {
        if let Some(umask) = umask {
            argv = [
                texts(&["/bin/sh", "-c", "umask \"$0\"; exec \"$@\"", &umask]),
                argv,
            ]
            .concat();
        }
        return Ok(Prepared {
            argv,
            env,
            cwd,
            ids,
        });
    }
    let argv = inside(system, &cwd, &umask.unwrap_or_default(), argv).map_err(start)?;
    Ok(Prepared {
        argv,
        env,
        cwd: PathBuf::from("/"),
        ids: None,
    })
}

/// Turns the failure of our own steps into an error, so that it is not taken for the program's.
pub(super) fn judge(
    system: &RealSystem,
    command: &Command,
    output: Output,
) -> Result<Output, SystemError> {
    if system.is_host() {
        return Ok(output);
    }
    let text = output.text();
    let ours = output.code == FAILED && text.lines().any(|line| line.starts_with(MARK));
    // unshare itself ends with 1 before anything else could print.
    if ours || (output.code == 1 && text.starts_with("unshare: ")) {
        let source = io::Error::other(format!(
            "{}; a scratch root needs mount namespaces (util-linux unshare, and user namespaces unless root)",
            text.trim()
        ));
        return Err(SystemError::Start {
            program: command.program().to_owned(),
            source,
        });
    }
    Ok(output)
}

/// A user to become.
struct Identity {
    uid: u32,
    gid: u32,
    /// Whether passwd knows the user, so that its supplementary groups can be found.
    known: bool,
}

/// Who the command runs as; `None` for nobody else than we are.
fn identity(system: &RealSystem, command: &Command) -> io::Result<Option<Identity>> {
    if command.uid.is_none() && command.gid.is_none() {
        return Ok(None);
    }
    let we = geteuid();
    let uid = command.uid.unwrap_or(we.as_raw());
    if !we.is_root() {
        // In a scratch root we seem to be root.
        let same = uid == we.as_raw() || (!system.is_host() && uid == 0);
        let own_group = command.gid.is_none_or(|gid| {
            gid == nix::unistd::getegid().as_raw() || (!system.is_host() && gid == 0)
        });
        if same && own_group {
            return Ok(None);
        }
        let problem = format!("only root can run it as user {uid}, and this process is user {we}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let entry = passwd_entry(system, uid);
    let gid = command
        .gid
        .or(entry.as_ref().map(|entry| entry.gid))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("user {uid} is not in passwd, so its group must be given"),
            )
        })?;
    Ok(Some(Identity {
        uid,
        gid,
        known: entry.is_some(),
    }))
}

struct Entry {
    gid: u32,
    home: String,
}

fn passwd_entry(system: &RealSystem, uid: u32) -> Option<Entry> {
    if system.is_host() {
        let user = User::from_uid(Uid::from_raw(uid)).ok()??;
        let home = user.dir.to_str()?.to_owned();
        return Some(Entry {
            gid: Gid::as_raw(user.gid),
            home,
        });
    }
    let passwd = system.read(Path::new("/etc/passwd"), PASSWD_LIMIT).ok()?;
    String::from_utf8_lossy(&passwd).lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let found = fields.next()?.parse::<u32>().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1)?.to_owned();
        (found == uid).then_some(Entry { gid, home })
    })
}

fn home(system: &RealSystem, uid: Option<u32>) -> String {
    let uid = uid.unwrap_or_else(|| {
        if system.is_host() {
            geteuid().as_raw()
        } else {
            0
        }
    });
    passwd_entry(system, uid)
        .map(|entry| entry.home)
        .filter(|home| !home.is_empty())
        .unwrap_or_else(|| (if uid == 0 { "/root" } else { "/" }).to_owned())
}

/// Where the program is, as a path of the node. Looked up here, so that a missing program is an error and not a code.
fn find(system: &RealSystem, program: &str, search: &str) -> io::Result<String> {
    let candidates: Vec<String> = if program.contains('/') {
        vec![program.to_owned()]
    } else {
        search
            .split(':')
            .map(|directory| format!("{directory}/{program}"))
            .collect()
    };
    let mut seen = io::ErrorKind::NotFound;
    for candidate in candidates {
        match executable(system, Path::new(&candidate)) {
            Some(true) => return Ok(candidate),
            Some(false) => seen = io::ErrorKind::PermissionDenied,
            None => {}
        }
    }
    Err(seen.into())
}

/// Whether the file can be executed; `None` when there is none.
fn executable(system: &RealSystem, program: &Path) -> Option<bool> {
    let mut places = vec![system.host_path(program, true).ok()?];
    let first = program.components().nth(1)?.as_os_str().to_str()?;
    if !system.is_host() && BORROWED.contains(&first) {
        places.push(program.to_owned());
    }
    places.iter().find_map(|place| {
        let found = place.metadata().ok()?;
        found
            .is_file()
            .then(|| found.permissions().mode() & 0o111 != 0)
    })
}

fn become_user(who: &Identity, argv: Vec<String>) -> Vec<String> {
    let groups = if who.known {
        "--init-groups"
    } else {
        "--clear-groups"
    };
    let (uid, gid) = (
        format!("--reuid={}", who.uid),
        format!("--regid={}", who.gid),
    );
    [texts(&["/usr/bin/setpriv", &uid, &gid, groups, "--"]), argv].concat()
}

/// Wraps the command so that it runs inside the scratch root.
fn inside(
    system: &RealSystem,
    cwd: &Path,
    umask: &str,
    argv: Vec<String>,
) -> io::Result<Vec<String>> {
    let not_text = || io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8");
    let root = system.root().to_str().ok_or_else(not_text)?;
    let cwd = cwd.to_str().ok_or_else(not_text)?;
    let own_users: &[&str] = if geteuid().is_root() {
        &[]
    } else {
        &["--user", "--map-root-user"]
    };
    let strict = if geteuid().is_root() {
        "strict"
    } else {
        "mapped"
    };
    Ok([
        texts(&["/usr/bin/unshare", "--mount"]),
        texts(own_users),
        texts(&["--", "/bin/sh", "-c", ENTER, "enter", root, strict]),
        texts(&["/bin/sh", "-c", INSIDE, "inside", cwd, umask]),
        argv,
    ]
    .concat())
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
