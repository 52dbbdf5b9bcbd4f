//! The files through which a step talks back: made before it, read after it.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
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
    pub(super) fn create(folder: &Path, number: usize) -> Result<Self, String> {
        let file = |name: &str| folder.join(format!("{name}_{number}"));
        let files = Self {
            env: file("set_env"),
            output: file("set_output"),
            path: file("add_path"),
            state: file("save_state"),
            summary: file("step_summary"),
        };
        for path in files.all() {
            empty_file(path)
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

    /// Removes what was written. Empty files stay: a later job in the same place takes them.
    pub(super) fn remove(&self, left: &Left) {
        let contents = [&left.env, &left.output, &left.path, &left.state, &left.summary];
        for (path, _) in self.all().iter().zip(contents).filter(|(_, bytes)| !bytes.is_empty()) {
            // The whole folder goes with the run; what cannot be removed now goes then.
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes a file in the place of whatever is there.
pub(super) fn write(path: &Path, contents: &str) -> io::Result<()> {
    empty_file(path)?.write_all(contents.as_bytes())
}

/// Empties a file that [`write`] wrote. It may be gone.
pub(crate) fn wipe(path: &Path) {
    if let Ok(file) = fs::OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(path) {
        let _ = file.set_len(0);
    }
}

/// An empty file of our own. One that is there already will do: it costs a tenth of a new one. But a
/// step may have made anything of it: a link to elsewhere, a folder, a pipe.
fn empty_file(path: &Path) -> io::Result<fs::File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(false).custom_flags(flags).open(path);
    if let Ok(file) = opened {
        let found = file.metadata()?;
        if found.is_file() && found.len() == 0 && found.nlink() == 1 {
            return Ok(file);
        }
    }
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => path.parent().map_or(Ok(()), fs::create_dir_all),
    };
    removed.and_then(|()| fs::File::create_new(path))
}

fn is_empty(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// A step may have removed or replaced its file: what is not there says nothing, and nobody waits for
/// the other end of a pipe.
fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut options = fs::OpenOptions::new();
    if !is_empty(path)
        && let Ok(file) = options.read(true).custom_flags(libc::O_NONBLOCK).open(path)
    {
        let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P11
    #[test]
    fn files_are_empty_and_ours_whatever_became_of_the_last_ones() {
        let scratch = tempfile::tempdir().expect("the system has a directory for such files");
        let folder = scratch.path().join("steps");
        let elsewhere = scratch.path().join("elsewhere");
        let spoils: [fn(&Path, &Path) -> io::Result<()>; 6] = [
            |_, _| Ok(()),
            |file, _| fs::write(file, "A=1"),
            |file, _| fs::remove_file(file).and_then(|()| fs::create_dir(file)),
            |file, other| {
                fs::remove_file(file).and_then(|()| std::os::unix::fs::symlink(other, file))
            },
            |file, other| fs::hard_link(file, other),
            |file, _| fs::remove_file(file),
        ];
        for (case, spoil) in spoils.into_iter().enumerate() {
            let files = CommandFiles::create(&folder, 1).expect("the folder is ours");
            for path in files.all() {
                let found = fs::symlink_metadata(path).expect("it was made");
                assert!(found.is_file() && found.len() == 0 && found.nlink() == 1, "case {case}");
            }
            spoil(&files.env, &elsewhere).expect("the step may do that");
            let left = files.read();
            files.remove(&left);
            assert_eq!(
                left.env,
                if case == 1 { b"A=1".to_vec() } else { Vec::new() },
                "case {case}"
            );
            assert!(files.output.exists(), "an empty file waits for the next job");
        }
    }

    #[test]
    fn a_script_leaves_nothing_of_itself_and_writes_through_no_link() {
        let scratch = tempfile::tempdir().expect("the system has a directory for such files");
        let (script, precious) = (scratch.path().join("script"), scratch.path().join("precious"));
        for text in ["a long first script", "short"] {
            write(&script, text).expect("the folder is ours");
            assert_eq!(fs::read_to_string(&script).expect("it was written"), text);
            wipe(&script);
            assert!(is_empty(&script));
        }
        fs::write(&precious, "kept").expect("the folder is ours");
        fs::remove_file(&script).expect("it is ours");
        std::os::unix::fs::symlink(&precious, &script).expect("the folder is ours");
        wipe(&script);
        write(&script, "third").expect("the link is replaced");
        assert_eq!(fs::read_to_string(&precious).expect("it is there"), "kept");
    }
}
