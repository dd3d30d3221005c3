//! What surrounds a program of Puppet's: its command line, the catalog that it gets, and the report that it leaves. Blocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::system::{Attributes, ProcessId, StateDir, System, SystemError};

use crate::arguments::{Files, Wish, argv};
use crate::files::look;
use crate::files::report::Report;
use crate::options::{Application, Options};
use crate::places::{self, NoPuppet, Places};
use crate::record::Step;
use crate::session::{self, Ended, Stop, TRACE, Watch};
use crate::wrapper::books::{self, Books, CATALOG, catalog};
use crate::wrapper::relations::Relations;
use crate::wrapper::replay;

/// The catalog that `puppet apply` gets instead of its own.
const PATCHED: &str = "catalog.json";
/// The agent's catalog as it was, and where it was.
const ORIGINAL: &str = "original.json";
const ORIGINAL_PATH: &str = "original.path";
/// How long a report may be half written.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    NoPuppet(#[from] NoPuppet),
    #[error("Puppet cannot be started")]
    System(#[from] SystemError),
    #[error("[plugins.puppet] application is `apply`, and names neither a catalog nor a manifest")]
    NothingToApply,
}

/// A program that is about to be started.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) options: &'a Options,
    pub(crate) system: &'a dyn System,
    pub(crate) places: &'a Places,
    pub(crate) directory: PathBuf,
    pub(crate) wish: &'a Wish,
    /// Who is owed a refresh.
    pub(crate) owed: Vec<String>,
    pub(crate) trace: Option<String>,
}

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) process: ProcessId,
    pub(crate) directory: PathBuf,
    /// The refreshes that it is to make.
    pub(crate) targets: Vec<String>,
}

impl Prepared<'_> {
    /// Starts it. Without targets, it gets those that can be paid at once, if its catalog is there already.
    pub(crate) fn start(self, targets: Vec<String>) -> Result<Begun, StartError> {
        let options = self.options;
        let is_apply = options.application == Application::Apply;
        if is_apply && options.catalog.is_none() && options.manifest.is_none() {
            return Err(StartError::NothingToApply);
        }
        let program = places::program(options, self.system)?;
        // A run that came too late begins anew, and must not read what the program before has left.
        StateDir::anew(&self.directory)?;
        let targets = self.targets(targets);
        let patched = self.patch(&targets, is_apply)?;
        let files = Files {
            program: &program,
            trace: &self.directory.join(TRACE),
            catalog: patched.as_deref().or(options.catalog.as_deref()),
        };
        let argv = argv(options, self.wish, files);
        let process = session::start(self.system, argv, &self.directory, self.trace.clone())?;
        Ok(Begun {
            process,
            directory: self.directory,
            targets,
        })
    }

    fn targets(&self, targets: Vec<String>) -> Vec<String> {
        let has_catalog = match self.options.application {
            Application::Apply => self.options.catalog.is_some(),
            Application::Agent => self.wish.use_cached_catalog == Some(true),
        };
        if !targets.is_empty() || !has_catalog || !self.wish.is_whole() {
            return targets;
        }
        match catalog_path(self.options, self.places, self.system) {
            Some(path) => payable(self.system, &path, None, self.owed.clone()),
            None => Vec::new(),
        }
    }

    /// Adds the refreshes to the catalog; where `puppet apply` finds it then. The agent's own is put back afterwards.
    fn patch(&self, targets: &[String], is_apply: bool) -> Result<Option<PathBuf>, SystemError> {
        if targets.is_empty() {
            return Ok(None);
        }
        let path = catalog_path(self.options, self.places, self.system);
        let original = path
            .as_ref()
            .and_then(|path| self.system.read(path, CATALOG).ok());
        let (Some(path), Some(original)) = (path, original) else {
            return Ok(None);
        };
        let document = serde_json::from_slice(&original).unwrap_or_default();
        let Some(patched) = replay::with(document, targets) else {
            return Ok(None);
        };
        let bytes = serde_json::to_vec(&patched).unwrap_or_default();
        let state = StateDir::open(&self.directory)?;
        if is_apply {
            state.replace(PATCHED, &bytes)?;
            return Ok(Some(self.directory.join(PATCHED)));
        }
        state.replace(ORIGINAL, &original)?;
        state.replace(ORIGINAL_PATH, path.as_os_str().as_encoded_bytes())?;
        self.system.write(&path, &bytes, &Attributes::default())?;
        Ok(None)
    }
}

/// Puts the agent's catalog back, if it was changed for the program that ran in this directory.
pub(crate) fn restore(system: &dyn System, directory: &Path) {
    let restored = || {
        let state = StateDir::open(directory)?;
        let path = state.read(ORIGINAL_PATH, 4096)?;
        if let (Some(path), Some(original)) = (path, state.read(ORIGINAL, CATALOG)?) {
            let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
            system.write(&path, &original, &Attributes::default())?;
            state.remove(ORIGINAL_PATH)?;
        }
        Ok::<(), SystemError>(())
    };
    if let Err(error) = restored() {
        tracing::warn!(%error, "Puppet's cached catalog still asks for refreshes that were made");
    }
}

/// The program that goes on, and what follows it.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) system: Arc<dyn System>,
    pub(crate) engine: PathBuf,
    pub(crate) run: String,
    pub(crate) is_noop: bool,
    pub(crate) catalog: Option<PathBuf>,
    pub(crate) step: Step,
    pub(crate) stop: Arc<Stop>,
    pub(crate) grace: Duration,
}

impl Follow {
    pub(crate) fn until_its_end(self, mut applying: impl FnMut()) -> Result<Ended, SystemError> {
        let engine = StateDir::open(&self.engine)?;
        let books = Books::open(&engine, self.run, self.is_noop, self.catalog)?;
        let watch = Watch {
            system: &*self.system,
            process: self.step.process,
            directory: self.step.directory,
            books,
            targets: &self.step.targets,
            stop: &self.stop,
            grace: self.grace,
        };
        watch.until_its_end(&mut applying)
    }
}

/// Where the catalog of a run is, or will be when Puppet has got it.
pub(crate) fn catalog_path(
    options: &Options,
    places: &Places,
    system: &dyn System,
) -> Option<PathBuf> {
    if options.application == Application::Apply {
        return options.catalog.clone();
    }
    let directory = places.catalogs();
    let of_host = |host: &str| directory.join(format!("{host}.json"));
    if let Some(certname) = &options.certname {
        return Some(of_host(certname));
    }
    let last = look::report(system, places).ok().flatten();
    let host = last.and_then(|report| report.text("host"));
    let host = host.filter(|host| !host.contains('/'));
    if let Some(host) = host {
        return Some(of_host(&host));
    }
    let mut found = system.read_dir(&directory).unwrap_or_default();
    found.retain(|name| {
        Path::new(name)
            .extension()
            .is_some_and(|kind| kind == "json")
    });
    match found.as_slice() {
        [only] => Some(directory.join(only)),
        _ => None,
    }
}

/// Of those who are owed a refresh, who can be refreshed with this catalog; by the report of its last run, if there is one.
pub(crate) fn payable(
    system: &dyn System,
    path: &Path,
    report: Option<&Report>,
    owed: Vec<String>,
) -> Vec<String> {
    if owed.is_empty() {
        return owed;
    }
    let Some(document) = catalog(system, path) else {
        return Vec::new();
    };
    let relations = Relations::of(&document);
    let is_payable = |target: &String| {
        let Some(spelled) = relations.spelled(target) else {
            return false;
        };
        let fared = report.and_then(|report| report.fared(spelled));
        let could =
            fared.is_none_or(|fared| !(fared.failed || fared.failed_to_restart || fared.skipped));
        could && !relations.is_noop(target)
    };
    owed.into_iter().filter(is_payable).collect()
}

/// Who is owed a refresh, by the ledger in this directory; one that cannot be read owes nobody that could be paid.
pub(crate) fn owed(engine: &Path) -> Vec<String> {
    let state = StateDir::open(engine);
    state
        .and_then(|state| books::owed(&state))
        .unwrap_or_default()
}

/// The report that is there; one that is being written is waited for.
pub(crate) fn report(system: &dyn System, places: &Places) -> Option<Report> {
    let until = Instant::now() + PATIENCE;
    loop {
        match look::report(system, places) {
            Ok(Some(report)) => return Some(report),
            _ if !is_there(system, places) || Instant::now() >= until => return None,
            _ => std::thread::park_timeout(Duration::from_millis(100)),
        }
    }
}

fn is_there(system: &dyn System, places: &Places) -> bool {
    system
        .metadata(&places.report())
        .is_ok_and(|found| found.is_some())
}
