//! The programs of the daemon that upgrades brought, and which of them the next start runs.
//!
//! The installed program stays as it is. When it starts, it runs the selected program in its place, so a selected program that does not work is
//! replaced by the earlier one at the next start, whatever it did before. A program is on trial until its upgrade is confirmed: it starts once.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use muster_api::system::{StateDir, SystemResult};
use muster_files::replace_file;
use muster_wire::catalog::content::ContentAddress;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The directory of the programs, in the daemon's state directory.
const PROGRAMS_DIRECTORY: &str = "programs";
/// The file of the selection, beside them.
const SELECTION_FILE: &str = "selection.json";
const MAX_SELECTION_BYTES: u64 = 64 * 1024;
/// The name of a program's file, before its SHA-256.
const FILE_PREFIX: &str = "rpcd-";
/// The compressed program, while it is fetched.
const FETCHED_FILE: &str = "fetched.gz";
const PROGRAM_MODE: u32 = 0o700;
/// What callers read for the program of the package.
const INSTALLED: &str = "installed";

/// A program that an upgrade brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredProgram {
    pub name: String,
    pub sha256: ContentAddress,
}

/// The program that a package or an administrator installed. If it changes, it is the newer one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InstalledProgram {
    path: PathBuf,
    bytes: u64,
    /// Seconds and nanoseconds since the epoch.
    modified: (i64, i64),
}

impl InstalledProgram {
    fn read(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let modified = (found.mtime(), found.mtime_nsec());
        Ok(Self { path: path.to_owned(), bytes: found.size(), modified })
    }
}

/// A program that must be confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ProgramTrial {
    /// What runs without the confirmation; `None` for the installed program.
    earlier: Option<StoredProgram>,
    /// Milliseconds since the epoch.
    confirm_by: u64,
    has_started: bool,
}

/// Which program the next start runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ProgramSelection {
    /// `None` for the installed program.
    selected: Option<StoredProgram>,
    trial: Option<ProgramTrial>,
    /// The installed program at the time of the selection.
    installed: Option<InstalledProgram>,
    /// Why the last selected program is not selected any more.
    reason: Option<String>,
}

impl ProgramSelection {
    /// The selection that a start finds, with what has happened since it was made. A program that was on trial, and that has started before, does not start
    /// again. Returns whether this start begins the trial.
    fn at_start(mut self, installed: Option<&InstalledProgram>, now: u64) -> (Self, bool) {
        if self.selected.is_none() && self.trial.is_none() {
            return (self, false);
        }
        if self.installed.as_ref() != installed {
            return (self.without_upgrade("another program was installed".to_owned()), false);
        }
        let Some(trial) = &mut self.trial else { return (self, false) };
        let problem = match (trial.has_started, now > trial.confirm_by) {
            (true, _) => "ended before it was confirmed",
            (false, true) => "was not started in time",
            (false, false) => {
                trial.has_started = true;
                return (self, true);
            }
        };
        let reason = format!("the program {} {problem}", name_of(self.selected.as_ref()));
        let selected = self.trial.take().and_then(|trial| trial.earlier);
        (Self { selected, reason: Some(reason), ..self }, false)
    }

    fn without_upgrade(self, reason: String) -> Self {
        Self { selected: None, trial: None, reason: Some(reason), ..self }
    }
}

/// What callers read for a program.
pub(crate) fn name_of(program: Option<&StoredProgram>) -> &str {
    program.map_or(INSTALLED, |program| program.name.as_str())
}

/// What a start runs.
#[derive(Debug, PartialEq, Eq)]
pub struct ProgramChoice {
    pub program: PathBuf,
    /// When the upgrade must be confirmed, in milliseconds since the epoch, if this start is the one of its trial.
    pub trial_until: Option<u64>,
}

/// The directory of the programs, for the program that runs.
#[derive(Debug, Clone)]
pub struct ProgramStore {
    directory: PathBuf,
    running: PathBuf,
}

impl ProgramStore {
    /// `running` is the path of this process's program, as it was at the start.
    pub fn new(state_directory: &Path, running: PathBuf) -> Self {
        Self { directory: state_directory.join(PROGRAMS_DIRECTORY), running }
    }

    pub fn running(&self) -> &Path {
        &self.running
    }

    /// The program of the next start, without choosing it.
    pub fn next_program(&self) -> PathBuf {
        let found = self.read().unwrap_or_default();
        let installed = found.installed.map(|installed| installed.path);
        let selected = found.selected.map(|program| self.path_of(&program));
        selected.or(installed).unwrap_or_else(|| self.running.clone())
    }

    /// Whether an upgrade brought the program that runs, so that the installed one has chosen it.
    pub fn runs_upgrade(&self) -> bool {
        self.running.parent() == Some(&self.directory)
    }

    pub fn path_of(&self, program: &StoredProgram) -> PathBuf {
        self.directory.join(format!("{FILE_PREFIX}{}", program.sha256))
    }

    /// Chooses the program of the next start, and notes a trial that begins or has failed.
    pub fn choose(&self, now: u64) -> SystemResult<ProgramChoice> {
        let found = self.read()?;
        let installed = found.installed.as_ref();
        let path = installed.map_or(self.running.clone(), |installed| installed.path.clone());
        if found.selected.is_none() && self.runs_upgrade() {
            // The installed program begins its trial itself.
            return Ok(ProgramChoice { program: path, trial_until: None });
        }
        let installed = InstalledProgram::read(&path).ok();
        let (mut selection, mut is_trial) = found.clone().at_start(installed.as_ref(), now);
        let damaged = selection.selected.as_ref().filter(|program| !self.is_intact(program));
        if let Some(program) = damaged {
            let reason = format!("the file of the program {} is missing or damaged", program.name);
            (selection, is_trial) = (selection.without_upgrade(reason), false);
        }
        if selection != found {
            self.write(&selection)?;
        }
        let selected = selection.selected.as_ref().map(|program| self.path_of(program));
        let trial_until = selection.trial.filter(|_| is_trial).map(|trial| trial.confirm_by);
        Ok(ProgramChoice { program: selected.unwrap_or(path), trial_until })
    }

    /// Returns to the installed program, because the selected one cannot be started.
    pub fn refuse_selected(&self, problem: &str) -> SystemResult<()> {
        let found = self.read()?;
        let name = name_of(found.selected.as_ref());
        let reason = format!("the program {name} cannot be started: {problem}");
        self.write(&found.without_upgrade(reason))
    }

    /// When the program on trial must be confirmed, in milliseconds since the epoch; `None` without a trial.
    pub fn trial_until(&self) -> SystemResult<Option<u64>> {
        Ok(self.read()?.trial.map(|trial| trial.confirm_by))
    }

    /// The name of the program that runs; `None` for the installed one.
    pub(crate) fn running_name(&self) -> Option<String> {
        let selected = self.read().ok()?.selected?;
        (self.path_of(&selected) == self.running).then_some(selected.name)
    }

    /// The selected program, and why the one before is not selected any more.
    pub(crate) fn selected(&self) -> SystemResult<(Option<StoredProgram>, Option<String>)> {
        let found = self.read()?;
        Ok((found.selected, found.reason))
    }

    /// Selects the program of the next start. With a time, it is on trial until then.
    pub(crate) fn select(
        &self,
        program: Option<&StoredProgram>,
        confirm_by: Option<u64>,
    ) -> SystemResult<()> {
        let found = self.read()?;
        let trial = confirm_by.map(|confirm_by| {
            let earlier = found.selected.clone();
            ProgramTrial { earlier, confirm_by, has_started: false }
        });
        let installed = if self.runs_upgrade() {
            found.installed
        } else {
            InstalledProgram::read(&self.running).ok()
        };
        let selected = program.cloned();
        self.write(&ProgramSelection { selected, trial, installed, reason: None })
    }

    /// Ends the trial: the program stays selected.
    pub(crate) fn confirm(&self) -> SystemResult<()> {
        self.write(&ProgramSelection { trial: None, ..self.read()? })
    }

    /// Whether the file of a program is there and has the right bytes.
    pub fn is_intact(&self, program: &StoredProgram) -> bool {
        let digest = fs::File::open(self.path_of(program)).and_then(|mut file| {
            let mut digest = Sha256::new();
            io::copy(&mut file, &mut digest)?;
            Ok(ContentAddress::from_bytes(digest.finalize().into()))
        });
        digest.is_ok_and(|digest| digest == program.sha256)
    }

    /// Where the compressed file of a program is fetched to. Creates the directory, and removes programs that are neither selected nor this one.
    pub fn prepare_fetch(&self, program: &StoredProgram) -> SystemResult<PathBuf> {
        let directory = self.open()?;
        let found = self.read()?;
        let earlier = found.trial.as_ref().and_then(|trial| trial.earlier.as_ref());
        let kept: Vec<PathBuf> = [Some(program), found.selected.as_ref(), earlier]
            .into_iter()
            .flatten()
            .map(|program| self.path_of(program))
            .collect();
        let compressed = directory.path().join(FETCHED_FILE);
        let entries = fs::read_dir(directory.path()).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(FILE_PREFIX) && !kept.contains(&path) && path != self.running {
                // What cannot be removed only takes space.
                let _ = fs::remove_file(&path);
            }
        }
        Ok(compressed)
    }

    /// Decompresses a fetched file of a program of this size, and removes it.
    pub fn unpack(&self, compressed: &Path, program: &StoredProgram, bytes: u64) -> io::Result<()> {
        let mut content = Vec::new();
        // One byte more than the size shows that there is more.
        GzDecoder::new(fs::File::open(compressed)?)
            .take(bytes.saturating_add(1))
            .read_to_end(&mut content)?;
        fs::remove_file(compressed)?;
        if content.len() as u64 != bytes || ContentAddress::of(&content) != program.sha256 {
            return Err(io::Error::other("its size or SHA-256 is not that of the account token"));
        }
        replace_file(&self.path_of(program), &content, PROGRAM_MODE)
    }

    fn open(&self) -> SystemResult<StateDir> {
        StateDir::open(&self.directory)
    }

    /// The selection; the installed program if nothing was upgraded, or if the file is damaged.
    fn read(&self) -> SystemResult<ProgramSelection> {
        if !self.directory.exists() {
            return Ok(ProgramSelection::default());
        }
        let found = self.open()?.read_record(SELECTION_FILE, MAX_SELECTION_BYTES)?;
        Ok(found.unwrap_or_default())
    }

    fn write(&self, selection: &ProgramSelection) -> SystemResult<()> {
        self.open()?.replace_record(SELECTION_FILE, selection)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::{Path, PathBuf};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use muster_wire::catalog::content::ContentAddress;
    use tempfile::TempDir;

    use super::{ProgramChoice, ProgramStore, StoredProgram};

    const NOW: u64 = 1_764_345_600_000;
    const LATER: u64 = NOW + 60_000;

    struct Machine {
        scratch: TempDir,
        installed: PathBuf,
    }

    impl Machine {
        fn new() -> Self {
            let scratch = TempDir::new().unwrap();
            let installed = scratch.path().join("rpcd");
            fs::write(&installed, "installed").unwrap();
            Self { scratch, installed }
        }

        fn store(&self, running: &Path) -> ProgramStore {
            ProgramStore::new(&self.scratch.path().join("state"), running.to_owned())
        }

        /// The installed program, which starts.
        fn start(&self) -> ProgramStore {
            self.store(&self.installed)
        }

        fn add(&self, name: &str) -> (StoredProgram, PathBuf) {
            let store = self.start();
            let sha256 = ContentAddress::of(name.as_bytes());
            let program = StoredProgram { name: name.to_owned(), sha256 };
            let compressed = store.prepare_fetch(&program).unwrap();
            fs::write(&compressed, compress(name.as_bytes())).unwrap();
            store.unpack(&compressed, &program, name.len() as u64).unwrap();
            let path = store.path_of(&program);
            (program, path)
        }
    }

    fn compress(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn runs(program: &Path, trial_until: Option<u64>) -> ProgramChoice {
        ProgramChoice { program: program.to_owned(), trial_until }
    }

    #[test]
    fn confirmed_program_starts_until_another_one_is_installed() {
        let machine = Machine::new();
        let installed = &machine.installed;
        assert_eq!(machine.start().choose(NOW).unwrap(), runs(installed, None));
        let (new, path) = machine.add("new");
        machine.start().select(Some(&new), Some(LATER)).unwrap();
        assert_eq!(machine.start().choose(NOW).unwrap(), runs(&path, Some(LATER)));
        machine.store(&path).confirm().unwrap();
        for start in [NOW, LATER + 1] {
            assert_eq!(machine.start().choose(start).unwrap(), runs(&path, None));
            assert_eq!(machine.store(&path).choose(start).unwrap(), runs(&path, None));
        }
        assert_eq!(machine.store(&path).running_name().as_deref(), Some("new"));
        fs::write(installed, "a newer package").unwrap();
        // Also when the program that runs restarts.
        assert_eq!(machine.store(&path).choose(NOW).unwrap(), runs(installed, None));
        assert_eq!(machine.start().choose(NOW).unwrap(), runs(installed, None));
        let (selected, reason) = machine.start().selected().unwrap();
        assert_eq!((selected, reason.as_deref()), (None, Some("another program was installed")));
    }

    #[test]
    fn program_on_trial_starts_once() {
        let machine = Machine::new();
        let (first, first_path) = machine.add("first");
        machine.start().select(Some(&first), None).unwrap();
        let (second, second_path) = machine.add("second");
        machine.store(&first_path).select(Some(&second), Some(LATER)).unwrap();
        let restarted = machine.store(&first_path).choose(NOW).unwrap();
        assert_eq!(restarted, runs(&second_path, Some(LATER)));
        assert_eq!(machine.start().trial_until().unwrap(), Some(LATER));
        // It ended: the service manager starts the installed program.
        assert_eq!(machine.start().choose(NOW).unwrap(), runs(&first_path, None));
        let (selected, reason) = machine.start().selected().unwrap();
        assert_eq!(selected, Some(first));
        assert_eq!(reason.as_deref(), Some("the program second ended before it was confirmed"));
        assert_eq!(machine.start().trial_until().unwrap(), None);
    }

    #[test]
    fn trial_that_begins_too_late_is_none() {
        let machine = Machine::new();
        let (new, _) = machine.add("new");
        machine.start().select(Some(&new), Some(NOW)).unwrap();
        assert_eq!(machine.start().choose(LATER).unwrap(), runs(&machine.installed, None));
    }

    #[test]
    fn return_to_the_installed_program_is_a_trial_too() {
        let machine = Machine::new();
        let (new, path) = machine.add("new");
        machine.start().select(Some(&new), None).unwrap();
        machine.store(&path).select(None, Some(LATER)).unwrap();
        let returned = machine.store(&path).choose(NOW).unwrap();
        assert_eq!(returned, runs(&machine.installed, None));
        assert_eq!(machine.start().choose(NOW).unwrap(), runs(&machine.installed, Some(LATER)));
        assert_eq!(machine.start().choose(NOW).unwrap(), runs(&path, None));
    }

    #[test]
    fn damaged_and_missing_programs_are_not_started() {
        let machine = Machine::new();
        let (new, path) = machine.add("new");
        let select = || machine.start().select(Some(&new), None).unwrap();
        for damage in [&(|| fs::write(&path, "damaged").unwrap()) as &dyn Fn(), &|| {
            fs::remove_file(&path).unwrap();
        }] {
            select();
            damage();
            assert_eq!(machine.start().choose(NOW).unwrap(), runs(&machine.installed, None));
            let (_, reason) = machine.start().selected().unwrap();
            assert!(reason.unwrap().contains("missing or damaged"));
        }
        fs::write(machine.scratch.path().join("state/programs/selection.json"), "{").unwrap();
        assert_eq!(machine.start().choose(NOW).unwrap(), runs(&machine.installed, None));
    }

    #[test]
    fn other_bytes_are_not_unpacked_and_old_programs_are_removed() {
        let machine = Machine::new();
        let store = machine.start();
        let (old, old_path) = machine.add("old");
        let (kept, kept_path) = machine.add("kept");
        assert!(!old_path.exists(), "{old:?}");
        store.select(Some(&kept), None).unwrap();
        let sha256 = ContentAddress::of(b"new");
        let new = StoredProgram { name: "new".to_owned(), sha256 };
        let compressed = store.prepare_fetch(&new).unwrap();
        for (content, bytes) in [(&b"evil"[..], 4), (b"new!", 3), (b"new", 4), (b"ne", 3)] {
            fs::write(&compressed, compress(content)).unwrap();
            assert!(store.unpack(&compressed, &new, bytes).is_err());
            assert!(!store.path_of(&new).exists());
        }
        assert!(kept_path.exists());
    }
}
