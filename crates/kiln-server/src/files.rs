//! Files of a server that nobody else may read, and the lock of its folder.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::start::StartError;

/// Holds the folder of a server until it is dropped, or the process ends in any way.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

/// Makes the folder of a server, for its user alone.
pub(crate) fn make_folder(path: &Path) -> Result<(), StartError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| StartError::Folder { path: path.to_owned(), error })
}

/// Takes the folder for this process. The file says whose it is, for people; the lock is what counts.
pub(crate) fn lock(folder: &Path) -> Result<FolderLock, StartError> {
    let failed = |error| StartError::Folder { path: folder.to_owned(), error };
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.take(32).read_to_string(&mut holder);
            let process = holder.trim().parse().ok();
            return Err(StartError::Locked { path: folder.to_owned(), process });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(failed)?;
    Ok(FolderLock { _file: file })
}

/// Writes a file whole or not at all, for this user alone.
pub(crate) fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let next = path.with_extension(format!("{}.new", std::process::id()));
    // A file that somebody put there would keep its mode and its owner.
    match fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&next)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)
    })();
    written.inspect_err(|_| {
        // What is half written is of no use to anybody.
        let _ = fs::remove_file(&next);
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_private_is_so_whatever_lay_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("deep/data");
        make_folder(&data).unwrap();
        assert_eq!((mode(&data), mode(data.parent().unwrap())), (0o700, 0o700));
        let (path, victim) = (data.join("keys"), data.join("victim"));
        fs::write(&victim, "untouched").unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o666)).unwrap();
        let next = path.with_extension(format!("{}.new", std::process::id()));
        symlink(&victim, &next).unwrap();
        fs::write(&path, "old").unwrap();
        write_private(&path, "secret").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("secret", 0o600));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert!(!next.exists());
        let _lock = lock(&data).unwrap();
        assert_eq!(mode(&data.join("lock")), 0o600);
    }
}
