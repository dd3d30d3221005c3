//! Lists `agents/*.json` and `data/*.json` for `src/builtin.rs`, so that adding one is adding a file.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let target = env::var("OUT_DIR").map_err(io::Error::other)?;
    for (directory, list) in [("agents", "builtin.rs"), ("data", "data.rs")] {
        let source = listed(&Path::new(&root).join(directory))?;
        fs::write(Path::new(&target).join(list), source)?;
    }
    Ok(())
}

/// Name and text of every document in a directory, as the source of a slice.
fn listed(directory: &Path) -> io::Result<String> {
    writeln!(io::stdout(), "cargo::rerun-if-changed={}", directory.display())?;
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
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
    Ok(source)
}
