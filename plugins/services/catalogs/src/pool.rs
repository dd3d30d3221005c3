//! The compilers of this host: one for each version of the code in use.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_host::external::SandboxHelper;
use muster_host::sandbox::UnixAccount;

use crate::code::CodeVersion;
use crate::compiler::{CompileLimits, Compiler, CompilerError, CompilerOptions};

/// How compilers are started.
#[derive(Debug)]
pub struct CompilerSettings {
    pub ruby: PathBuf,
    pub user: Option<UnixAccount>,
    pub limits: CompileLimits,
    /// Compilers have their directories here.
    pub state: PathBuf,
    pub helper: SandboxHelper,
    /// Programs that compile in place of Ruby, by environment.
    pub programs: HashMap<String, Vec<String>>,
}

/// Makes the directory of checkouts and compilers, which only root and the compiler's group can enter: code may have secrets.
pub fn prepare_directory(path: &Path, user: Option<&UnixAccount>) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o711).create(path)?;
    chown(path, None, user.map(|user| user.gid))?;
    fs::set_permissions(path, Permissions::from_mode(0o710))
}

/// Compilers by environment, each with the code that it compiles.
#[derive(Debug)]
pub struct CompilerPool {
    settings: CompilerSettings,
    compilers: Mutex<HashMap<String, RunningCompiler>>,
}

#[derive(Debug)]
struct RunningCompiler {
    code: String,
    compiler: Arc<Compiler>,
}

impl CompilerPool {
    pub fn new(settings: CompilerSettings) -> Self {
        Self { settings, compilers: Mutex::default() }
    }

    /// The compiler of this version. One of earlier code ends with its last compile.
    pub fn get(&self, code: &CodeVersion) -> Result<Arc<Compiler>, CompilerError> {
        let mut compilers = self.lock();
        if let Some(running) = compilers.get(&code.environment)
            && running.code == code.code
        {
            return Ok(Arc::clone(&running.compiler));
        }
        let compiler = Arc::new(self.start(code)?);
        let running = RunningCompiler { code: code.code.clone(), compiler: Arc::clone(&compiler) };
        compilers.insert(code.environment.clone(), running);
        Ok(compiler)
    }

    /// Ends a compiler after a compile that gave no result, unless another one has replaced it.
    pub fn discard(&self, environment: &str, compiler: &Arc<Compiler>) {
        let mut compilers = self.lock();
        if compilers.get(environment).is_some_and(|known| Arc::ptr_eq(&known.compiler, compiler)) {
            compilers.remove(environment);
        }
    }

    /// The environments that have a compiler.
    pub fn running(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn start(&self, code: &CodeVersion) -> Result<Compiler, CompilerError> {
        let CompilerSettings { ruby, user, limits, state, helper, programs } = &self.settings;
        let short: String = code.code.chars().take(12).collect();
        let options = CompilerOptions {
            ruby: ruby.clone(),
            environments: code.environments.clone(),
            environment: code.environment.clone(),
            state: state.join(format!("{}-{short}", code.environment)),
            user: user.clone(),
            limits: *limits,
            program: programs.get(&code.environment).cloned().unwrap_or_default(),
        };
        Compiler::start(options, helper)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, RunningCompiler>> {
        self.compilers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
