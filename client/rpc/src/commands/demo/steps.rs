//! Prints how to use a demonstration: settings for the shell to standard output, and commands to try to standard error.

use std::io::IsTerminal as _;
use std::path::Path;

use muster_display::printer::HINT;
use muster_display::shell_word;
use muster_organisation::bundle::name::USER_CONFIG;

use crate::commands::demo::catalogs;
use crate::commands::demo::contexts::{GUEST_CONTEXT, GUEST_DIRECTORY, has_context};
use crate::commands::demo::record::DemoRecord;
use crate::session::context::{CommandContext, Result};
use crate::session::environment::{CONFIG, CONTEXT, ProcessEnvironment};

/// Variable with the port of the broker, the only port that tunnels of the demonstration may reach.
const PORT: &str = "DEMO_PORT";

/// What a demonstration has.
#[derive(Debug, Clone, Copy)]
pub enum DemoKind {
    Machines,
    /// Machines that get catalogs which one of them compiles.
    Catalogs,
    /// Nodes without programs.
    Virtual,
}

impl DemoKind {
    pub fn of(is_virtual: bool, directory: &Path) -> Self {
        match is_virtual {
            true => Self::Virtual,
            false if catalogs::code_directory(directory).exists() => Self::Catalogs,
            false => Self::Machines,
        }
    }
}

/// Prints lines that a shell can evaluate, and commands to try.
pub fn print_settings(directory: &Path, kind: DemoKind, cx: CommandContext<'_>) -> Result<()> {
    let port = DemoRecord::load(directory)?.broker.and_then(|broker| broker.port());
    for line in shell_settings(directory, port, cx.environment) {
        cx.printer.print_line(line)?;
    }
    print_next_steps(directory, kind, cx);
    Ok(())
}

/// The client's configuration, the port of the broker, and the search path if this program is not in it.
fn shell_settings(
    directory: &Path,
    port: Option<u16>,
    environment: &ProcessEnvironment,
) -> Vec<String> {
    let word = |path: &Path| shell_word(&path.display().to_string());
    let mut lines = vec![format!("export {CONFIG}={}", word(&directory.join(USER_CONFIG)))];
    lines.extend(port.map(|port| format!("export {PORT}={port}")));
    // Both variables at once would be an error.
    if environment.context.is_some() {
        lines.push(format!("unset {CONTEXT}"));
    }
    if let Some(programs) = environment.program_directory()
        && !is_in_path(environment)
    {
        lines.push(format!("export PATH={}:\"$PATH\"", word(programs)));
    }
    lines
}

fn print_next_steps(directory: &Path, kind: DemoKind, cx: CommandContext<'_>) {
    let default = cx.environment.cache_directory().map(|cache| cache.join("demo"));
    let word = shell_word(&directory.display().to_string());
    let option = match default {
        Some(default) if default == directory => String::new(),
        _ => format!(" --dir {word}"),
    };
    let guest = if has_context(GUEST_CONTEXT, directory, cx.environment) {
        format!("--context {GUEST_CONTEXT}")
    } else {
        let path = directory.join(GUEST_DIRECTORY).join(USER_CONFIG);
        format!("--config {}", shell_word(&path.display().to_string()))
    };
    if std::io::stdout().is_terminal() {
        let up = format!("{} demo up{option}", program_word(cx.environment));
        cx.printer.print_message("");
        cx.printer.print_message(format_args!("To use it in this shell, run: eval \"$({up})\""));
    }
    let mut steps = vec![
        ("list the nodes that reply", "rpc ping".to_owned()),
        (
            "list the nodes that match",
            "rpc find -W \"environment=development customer=acme mysql::master\"".to_owned(),
        ),
        (
            "create a user on each of them",
            "rpc puppetral do type=user name=rip -C mysql::master".to_owned(),
        ),
    ];
    if !matches!(kind, DemoKind::Virtual) {
        steps.extend([
            ("restart a service", "rpc service restart service=httpd -C apache".to_owned()),
            ("install a package", "rpc package install package=tree".to_owned()),
            ("apply the nodes' catalogs, two nodes at a time", "rpc puppet runall 2".to_owned()),
            ("see who changed what", "rpc history --changed --since 1h".to_owned()),
            (
                "break a check, and see it",
                "rpc service stop service=httpd -C apache; rpc checks run service; rpc checks"
                    .to_owned(),
            ),
            ("show the message of the day of a node", "rpc motd render -I db1.acme.net".to_owned()),
        ]);
    }
    if matches!(kind, DemoKind::Catalogs) {
        let code = catalogs::code_directory(directory);
        let code = shell_word(&code.display().to_string());
        steps.extend([
            ("give the compiled catalogs a name", "rpc release create --environment production".to_owned()),
            ("ask the nodes what it would change", "rpc release plan r1".to_owned()),
            ("give it to all, one node first", "rpc release promote r1 --all --canary 1".to_owned()),
            (
                "change the code, and see what that changes",
                format!("sed -i s/workers.4/workers\\ 8/ {code}/modules/web/files/web.conf; rpc compile --environment production; rpc release create --environment production; rpc release diff r2"),
            ),
        ]);
    }
    steps.extend([
        (
            "as a user who may only read: the nodes deny it",
            format!("rpc {guest} puppetral do type=user name=rip"),
        ),
        ("stop the demonstration and remove its files", format!("rpc demo down{option}")),
    ]);
    cx.printer.print_message("");
    for (purpose, command) in steps {
        cx.printer.print_message(format_args!("# {purpose}"));
        cx.printer.print_message(format_args!("{HINT}{command}{HINT:#}"));
    }
}

/// This program as a word of the shell: its name if the search path has it, otherwise its path.
fn program_word(environment: &ProcessEnvironment) -> String {
    match &environment.program {
        Some(program) if !is_in_path(environment) => shell_word(&program.display().to_string()),
        _ => "rpc".to_owned(),
    }
}

/// Whether `rpc` in the search path is this program.
fn is_in_path(environment: &ProcessEnvironment) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    let found = environment.find_program("rpc").and_then(|path| canonical(&path));
    environment.program.as_deref().and_then(canonical) == found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::shell_settings;
    use crate::session::environment::ProcessEnvironment;

    #[test]
    fn settings_can_be_evaluated_with_any_path() {
        let programs = tempfile::tempdir().unwrap();
        let program = programs.path().join("rpc");
        std::fs::write(&program, "").unwrap();
        let environment = |path: &Path| ProcessEnvironment {
            program: Some(program.clone()),
            path: Some(path.as_os_str().to_owned()),
            ..ProcessEnvironment::default()
        };
        let in_path = environment(programs.path());
        assert_eq!(
            shell_settings(Path::new("/tmp/my demo"), Some(4222), &in_path),
            ["export RPC_CONFIG='/tmp/my demo/rpc.toml'", "export DEMO_PORT=4222"]
        );
        assert_eq!(
            shell_settings(Path::new("/tmp/demo"), None, &environment(Path::new("/usr/bin"))),
            [
                "export RPC_CONFIG=/tmp/demo/rpc.toml".to_owned(),
                format!("export PATH={}:\"$PATH\"", programs.path().display()),
            ]
        );
    }
}
