//! Builds the command line of a run as an argument array; no shell is involved.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::options::{Options, PuppetApplication};

/// Options of one run, as requested by the caller.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PuppetRunOptions {
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

impl PuppetRunOptions {
    /// The same options for a replay of owed refreshes: cached catalog, no splay.
    pub(crate) fn for_replay(&self) -> Self {
        Self { use_cached_catalog: Some(true), splay: Some(false), ..self.clone() }
    }

    /// Whether the whole catalog is applied without restrictions; owed refreshes are replayed only after such a run.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.noop != Some(true) && self.tags.is_empty() && self.skip_tags.is_empty()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PuppetRunFiles<'a> {
    pub(crate) program: &'a Path,
    /// Log file, in JSON lines.
    pub(crate) trace: &'a Path,
    /// The catalog of `puppet apply`, if there is one.
    pub(crate) catalog: Option<&'a Path>,
}

pub(crate) fn build_arguments(
    options: &Options,
    run_options: &PuppetRunOptions,
    files: PuppetRunFiles<'_>,
) -> Vec<String> {
    let mut argv = ArgumentList(vec![files.program.display().to_string()]);
    let is_agent = options.application == PuppetApplication::Agent;
    argv.push_word(if is_agent { "agent" } else { "apply" });
    push_directories(options, &mut argv);
    for word in ["--color=false", "--verbose", "--evaltrace", "--detailed-exitcodes"] {
        argv.push_word(word);
    }
    argv.push_pair("--logdest", format!("{},console", files.trace.display()));
    argv.push_switch("noop", run_options.noop);
    argv.push_switch("ignoreschedules", run_options.ignoreschedules);
    if !run_options.tags.is_empty() {
        argv.push_pair("--tags", run_options.tags.join(","));
    }
    if !run_options.skip_tags.is_empty() {
        argv.push_pair("--skip_tags", run_options.skip_tags.join(","));
    }
    if let Some(environment) = &run_options.environment {
        argv.push_pair("--environment", environment);
    }
    if is_agent {
        push_agent_arguments(options, run_options, &mut argv);
    }
    if let (Some(directory), None) = (options.compiled_dir(), files.catalog) {
        argv.push_pair("--catalog_cache_terminus", "json");
        argv.push_pair("--client_datadir", directory.display().to_string());
    }
    options.arguments.iter().for_each(|word| argv.push_word(word));
    if !is_agent {
        match (files.catalog, &options.manifest) {
            (Some(catalog), _) => argv.push_pair("--catalog", catalog.display().to_string()),
            (None, Some(manifest)) => argv.push_word(&manifest.display().to_string()),
            (None, None) => {}
        }
    }
    argv.0
}

fn push_directories(options: &Options, argv: &mut ArgumentList) {
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
            argv.push_pair(flag, directory.display().to_string());
        }
    }
    // Without --publicdir, Puppet 7 and later write the summary to the system-wide directory instead of below this vardir.
    if let (Some(vardir), None) = (&options.vardir, &options.publicdir) {
        argv.push_pair("--publicdir", vardir.join("public").display().to_string());
    }
    if let Some(certname) = &options.certname {
        argv.push_pair("--certname", certname);
    }
}

fn push_agent_arguments(
    options: &Options,
    run_options: &PuppetRunOptions,
    argv: &mut ArgumentList,
) {
    argv.push_word("--onetime");
    argv.push_word("--no-daemonize");
    // Without a certificate, fail at once instead of waiting for one while holding the permit.
    argv.push_pair("--waitforcert", "0");
    let splay = run_options.splay.or(options.splay);
    argv.push_switch("splay", if run_options.force { Some(false) } else { splay });
    if let Some(limit) = run_options.splaylimit.or(options.splaylimit) {
        argv.push_pair("--splaylimit", limit.to_string());
    }
    argv.push_switch("use_cached_catalog", run_options.use_cached_catalog);
    if let Some(server) = &run_options.server {
        match server.split_once(':') {
            Some((host, port)) => {
                argv.push_pair("--server", host);
                argv.push_pair("--masterport", port);
            }
            None => argv.push_pair("--server", server),
        }
    }
}

struct ArgumentList(Vec<String>);

impl ArgumentList {
    fn push_word(&mut self, word: &str) {
        self.0.push(word.to_owned());
    }

    fn push_pair(&mut self, flag: &str, value: impl Into<String>) {
        self.0.extend([flag.to_owned(), value.into()]);
    }

    /// Adds `--name`, `--no-name`, or nothing.
    fn push_switch(&mut self, name: &str, value: Option<bool>) {
        match value {
            Some(true) => self.push_word(&format!("--{name}")),
            Some(false) => self.push_word(&format!("--no-{name}")),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PuppetRunFiles, PuppetRunOptions, build_arguments};
    use crate::options::{Options, PuppetApplication};

    fn files() -> PuppetRunFiles<'static> {
        PuppetRunFiles {
            program: Path::new("/usr/bin/puppet"),
            trace: Path::new("/var/lib/muster/puppet/x/trace.jsonl"),
            catalog: None,
        }
    }

    #[test]
    fn default_run_overrides_no_setting_of_puppet() {
        let line =
            build_arguments(&Options::default(), &PuppetRunOptions::default(), files()).join(" ");
        assert_eq!(
            line,
            "/usr/bin/puppet agent --color=false --verbose --evaltrace --detailed-exitcodes --logdest \
             /var/lib/muster/puppet/x/trace.jsonl,console --onetime --no-daemonize --waitforcert 0"
        );
    }

    #[test]
    fn a2_8_every_option_is_a_separate_argument() {
        let wish = PuppetRunOptions {
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
        let argv = build_arguments(&Options::default(), &wish, files());
        let after = |flag: &str| {
            let at = argv.iter().position(|word| word == flag).unwrap();
            argv[at + 1].as_str()
        };
        assert_eq!(after("--tags"), "a,$(reboot)");
        assert_eq!(after("--skip_tags"), "c");
        assert_eq!(after("--environment"), "dev");
        assert_eq!(after("--splaylimit"), "7");
        assert_eq!((after("--server"), after("--masterport")), ("puppet2.example.net", "8141"));
        for word in ["--no-noop", "--splay", "--ignoreschedules", "--no-use_cached_catalog"] {
            assert!(argv.iter().any(|found| found == word), "{word}");
        }
    }

    #[test]
    fn force_disables_splay() {
        let options = Options { splay: Some(true), ..Options::default() };
        let wish =
            PuppetRunOptions { force: true, splay: Some(true), ..PuppetRunOptions::default() };
        let argv = build_arguments(&options, &wish, files());
        assert!(argv.contains(&"--no-splay".to_owned()) && !argv.contains(&"--splay".to_owned()));
    }

    #[test]
    fn puppet_apply_gets_its_catalog_as_last_argument() {
        let options = Options {
            application: PuppetApplication::Apply,
            vardir: Some("/x/var".into()),
            ..Options::default()
        };
        let files = PuppetRunFiles { catalog: Some(Path::new("/x/catalog.json")), ..files() };
        let argv = build_arguments(&options, &PuppetRunOptions::default(), files);
        assert_eq!(argv[1], "apply");
        assert!(argv.ends_with(&["--catalog".to_owned(), "/x/catalog.json".to_owned()]));
        assert!(argv.windows(2).any(|pair| pair == ["--publicdir", "/x/var/public"]));
        assert!(!argv.contains(&"--onetime".to_owned()));
    }
}
