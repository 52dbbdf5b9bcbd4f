//! The files through which a step talks back: made before it, read after it.

use std::fs;
use std::path::{Path, PathBuf};

/// More than this is not read; the parsers refuse less already.
const MAX_BYTES: u64 = 17 << 20;

pub(super) struct CommandFiles {
    pub(super) env: PathBuf,
    pub(super) output: PathBuf,
    pub(super) path: PathBuf,
    pub(super) state: PathBuf,
    pub(super) summary: PathBuf,
}

/// What a step wrote.
pub(super) struct Left {
    pub(super) env: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) state: Vec<u8>,
    pub(super) summary: Vec<u8>,
}

impl CommandFiles {
    pub(super) fn create(temp: &Path, number: usize) -> Result<Self, String> {
        let directory = temp.join("_runner_file_commands");
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot make `{}`: {error}", directory.display()))?;
        let file = |name: &str| directory.join(format!("{name}_{number}"));
        let files = Self {
            env: file("set_env"),
            output: file("set_output"),
            path: file("add_path"),
            state: file("save_state"),
            summary: file("step_summary"),
        };
        for path in files.all() {
            fs::write(path, "")
                .map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        }
        Ok(files)
    }

    fn all(&self) -> [&PathBuf; 5] {
        [&self.env, &self.output, &self.path, &self.state, &self.summary]
    }

    pub(super) fn read(&self) -> Left {
        Left {
            env: read(&self.env),
            output: read(&self.output),
            path: read(&self.path),
            state: read(&self.state),
            summary: read(&self.summary),
        }
    }

    pub(super) fn remove(&self) {
        for path in self.all() {
            // The whole folder goes with the job; what cannot be removed now goes then.
            let _ = fs::remove_file(path);
        }
    }
}

/// A step may have removed or replaced its file: what is not there says nothing.
fn read(path: &Path) -> Vec<u8> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    if let Ok(file) = fs::File::open(path) {
        let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
    }
    bytes
}
