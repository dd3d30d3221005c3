//! Lists `agents/*.json` for `src/builtin.rs`, so that adding an agent is adding a file.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let agents = Path::new(&root).join("agents");
    writeln!(io::stdout(), "cargo::rerun-if-changed={}", agents.display())?;
    let mut paths = Vec::new();
    for entry in fs::read_dir(&agents)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            paths.push(path);
        }
    }
    paths.sort();
    let mut source = String::from("&[\n");
    for path in &paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let path = path.to_string_lossy();
        writeln!(source, "    ({name:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    source.push(']');
    let target = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&target).join("builtin.rs"), source)
}
