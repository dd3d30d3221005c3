//! The command line of a run, from what was asked for: an array, never a line for a shell.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::options::{Application, Options};

/// How a run is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Wish {
    pub(crate) noop: Option<bool>,
    pub(crate) tags: Vec<String>,
    pub(crate) skip_tags: Vec<String>,
    pub(crate) environment: Option<String>,
    pub(crate) splay: Option<bool>,
    pub(crate) splaylimit: Option<u64>,
    pub(crate) server: Option<String>,
    pub(crate) ignoreschedules: Option<bool>,
    pub(crate) use_cached_catalog: Option<bool>,
    pub(crate) force: bool,
}

impl Wish {
    /// The same, for a run that pays debts with the catalog that is there.
    pub(crate) fn replay(&self) -> Self {
        Self {
            use_cached_catalog: Some(true),
            splay: Some(false),
            ..self.clone()
        }
    }

    /// Whether all of the catalog is meant, and to be applied: only then is it time to pay debts.
    pub(crate) fn is_whole(&self) -> bool {
        self.noop != Some(true) && self.tags.is_empty() && self.skip_tags.is_empty()
    }
}

/// What the run reads and writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files<'a> {
    /// Puppet's program.
    pub(crate) program: &'a Path,
    /// Where the log goes, as lines of JSON.
    pub(crate) trace: &'a Path,
    /// The catalog of `puppet apply`, if it has one.
    pub(crate) catalog: Option<&'a Path>,
}

/// Program and arguments.
pub(crate) fn argv(options: &Options, wish: &Wish, files: Files<'_>) -> Vec<String> {
    let mut argv = Argv(vec![files.program.display().to_string()]);
    let is_agent = options.application == Application::Agent;
    argv.word(if is_agent { "agent" } else { "apply" });
    directories(options, &mut argv);
    for word in [
        "--color=false",
        "--verbose",
        "--evaltrace",
        "--detailed-exitcodes",
    ] {
        argv.word(word);
    }
    argv.pair("--logdest", format!("{},console", files.trace.display()));
    argv.switch("noop", wish.noop);
    argv.switch("ignoreschedules", wish.ignoreschedules);
    if !wish.tags.is_empty() {
        argv.pair("--tags", wish.tags.join(","));
    }
    if !wish.skip_tags.is_empty() {
        argv.pair("--skip_tags", wish.skip_tags.join(","));
    }
    if let Some(environment) = &wish.environment {
        argv.pair("--environment", environment);
    }
    if is_agent {
        agent(options, wish, &mut argv);
    }
    options.arguments.iter().for_each(|word| argv.word(word));
    if !is_agent {
        match (files.catalog, &options.manifest) {
            (Some(catalog), _) => argv.pair("--catalog", catalog.display().to_string()),
            (None, Some(manifest)) => argv.word(&manifest.display().to_string()),
            (None, None) => {}
        }
    }
    argv.0
}

fn directories(options: &Options, argv: &mut Argv) {
    for (flag, directory) in [
        ("--confdir", &options.confdir),
        ("--codedir", &options.codedir),
        ("--vardir", &options.vardir),
        ("--rundir", &options.rundir),
        ("--logdir", &options.logdir),
        ("--publicdir", &options.publicdir),
        ("--ssldir", &options.ssldir),
    ] {
        if let Some(directory) = directory {
            argv.pair(flag, directory.display().to_string());
        }
    }
    // Without one, Puppet 7 and later would write the summary to the shared place.
    if let (Some(vardir), None) = (&options.vardir, &options.publicdir) {
        argv.pair("--publicdir", vardir.join("public").display().to_string());
    }
    if let Some(certname) = &options.certname {
        argv.pair("--certname", certname);
    }
}

fn agent(options: &Options, wish: &Wish, argv: &mut Argv) {
    argv.word("--onetime");
    argv.word("--no-daemonize");
    // A machine without a certificate fails at once, and does not hold its permit for ever.
    argv.pair("--waitforcert", "0");
    let splay = wish.splay.or(options.splay);
    argv.switch("splay", if wish.force { Some(false) } else { splay });
    if let Some(limit) = wish.splaylimit.or(options.splaylimit) {
        argv.pair("--splaylimit", limit.to_string());
    }
    argv.switch("use_cached_catalog", wish.use_cached_catalog);
    if let Some(server) = &wish.server {
        match server.split_once(':') {
            Some((host, port)) => {
                argv.pair("--server", host);
                argv.pair("--masterport", port);
            }
            None => argv.pair("--server", server),
        }
    }
}

struct Argv(Vec<String>);

impl Argv {
    fn word(&mut self, word: &str) {
        self.0.push(word.to_owned());
    }

    fn pair(&mut self, flag: &str, value: impl Into<String>) {
        self.0.extend([flag.to_owned(), value.into()]);
    }

    /// `--name`, `--no-name`, or nothing.
    fn switch(&mut self, name: &str, value: Option<bool>) {
        match value {
            Some(true) => self.word(&format!("--{name}")),
            Some(false) => self.word(&format!("--no-{name}")),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Files, Wish, argv};
    use crate::options::{Application, Options};

    fn files() -> Files<'static> {
        Files {
            program: Path::new("/usr/bin/puppet"),
            trace: Path::new("/var/lib/muster/puppet/x/trace.jsonl"),
            catalog: None,
        }
    }

    #[test]
    fn a_plain_run_leaves_everything_to_puppets_configuration() {
        let line = argv(&Options::default(), &Wish::default(), files()).join(" ");
        assert_eq!(
            line,
            "/usr/bin/puppet agent --color=false --verbose --evaltrace --detailed-exitcodes --logdest \
             /var/lib/muster/puppet/x/trace.jsonl,console --onetime --no-daemonize --waitforcert 0"
        );
    }

    #[test]
    fn a2_8_every_option_arrives_as_an_argument_of_its_own() {
        let wish = Wish {
            noop: Some(false),
            tags: vec!["a".to_owned(), "$(reboot)".to_owned()],
            skip_tags: vec!["c".to_owned()],
            environment: Some("dev".to_owned()),
            splay: Some(true),
            splaylimit: Some(7),
            server: Some("puppet2.example.net:8141".to_owned()),
            ignoreschedules: Some(true),
            use_cached_catalog: Some(false),
            force: false,
        };
        let argv = argv(&Options::default(), &wish, files());
        let after = |flag: &str| {
            let at = argv.iter().position(|word| word == flag).unwrap();
            argv[at + 1].as_str()
        };
        assert_eq!(after("--tags"), "a,$(reboot)");
        assert_eq!(after("--skip_tags"), "c");
        assert_eq!(after("--environment"), "dev");
        assert_eq!(after("--splaylimit"), "7");
        assert_eq!(
            (after("--server"), after("--masterport")),
            ("puppet2.example.net", "8141")
        );
        for word in [
            "--no-noop",
            "--splay",
            "--ignoreschedules",
            "--no-use_cached_catalog",
        ] {
            assert!(argv.iter().any(|found| found == word), "{word}");
        }
    }

    #[test]
    fn force_means_at_once() {
        let options = Options {
            splay: Some(true),
            ..Options::default()
        };
        let wish = Wish {
            force: true,
            splay: Some(true),
            ..Wish::default()
        };
        let argv = argv(&options, &wish, files());
        assert!(argv.contains(&"--no-splay".to_owned()) && !argv.contains(&"--splay".to_owned()));
    }

    #[test]
    fn puppet_apply_gets_its_catalog_last() {
        let options = Options {
            application: Application::Apply,
            vardir: Some("/x/var".into()),
            ..Options::default()
        };
        let files = Files {
            catalog: Some(Path::new("/x/catalog.json")),
            ..files()
        };
        let argv = argv(&options, &Wish::default(), files);
        assert_eq!(argv[1], "apply");
        assert!(argv.ends_with(&["--catalog".to_owned(), "/x/catalog.json".to_owned()]));
        assert!(
            argv.windows(2)
                .any(|pair| pair == ["--publicdir", "/x/var/public"])
        );
        assert!(!argv.contains(&"--onetime".to_owned()));
    }
}
