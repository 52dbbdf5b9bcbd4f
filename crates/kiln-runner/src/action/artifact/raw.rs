//! `archive: false`: one file that is an artifact as it is, under its own name.

use std::io::{self, Read as _};
use std::path::Path;

use super::{Chosen, Draft, GoOn, PIECE, open_file};

/// The one file of an artifact that is no archive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Only {
    /// What the artifact is called, whatever name was asked for.
    pub(crate) name: String,
    /// By the end of its name.
    pub(crate) content_type: &'static str,
}

/// Refuses more than one file.
pub(crate) fn only(chosen: &Chosen) -> Result<Only, String> {
    let [(path, _)] = &chosen.files[..] else {
        let count = chosen.files.len();
        return Err(format!(
            "When 'archive' is set to false, only a single file can be uploaded. Found {count} files to upload."
        ));
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let content_type = content_type(&name);
    Ok(Only { name, content_type })
}

/// What a file is said to be. Whoever downloads one that is said to be an archive unpacks it.
fn content_type(name: &str) -> &'static str {
    let end = Path::new(name).extension().unwrap_or_default().to_string_lossy();
    match &*end.to_ascii_lowercase() {
        "zip" => "application/zip",
        "txt" | "log" => "text/plain",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "md" => "text/markdown",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

pub(super) fn copy(chosen: &Chosen, draft: &mut Draft, go_on: &GoOn<'_>) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write a copy: {error}");
    let mut piece = vec![0; PIECE];
    for (path, _) in &chosen.files {
        let unread = |error: io::Error| format!("cannot read `{}`: {error}", path.display());
        let mut file = open_file(path).map_err(unread)?;
        loop {
            go_on().map_err(|error| error.to_string())?;
            match file.read(&mut piece).map_err(unread)? {
                0 => break,
                length => draft.put(&piece[..length]).map_err(failed)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::{Manner, pack};
    use super::*;

    fn chosen(paths: &[PathBuf]) -> Chosen {
        Chosen { files: paths.iter().map(|path| (path.clone(), "x".to_owned())).collect() }
    }

    /// R9
    #[test]
    fn one_file_has_its_own_name_and_is_what_its_end_says() {
        let check = |path: &str, name: &str, content_type: &str| {
            let found = only(&chosen(&[PathBuf::from(path)])).unwrap();
            assert_eq!((&*found.name, found.content_type), (name, content_type));
        };
        check("/w/dist/report.HTML", "report.HTML", "text/html");
        check("/w/app.tar.gz", "app.tar.gz", "application/gzip");
        check("/w/app.zip", "app.zip", "application/zip");
        check("/w/kiln", "kiln", "application/octet-stream");
        check("/w/.env", ".env", "application/octet-stream");
        for paths in [&[][..], &[PathBuf::from("/a"), PathBuf::from("/b")]] {
            let error = only(&chosen(paths)).unwrap_err();
            assert!(error.contains("only a single file can be uploaded"), "{error}");
        }
    }

    #[test]
    fn a_file_goes_as_it_is_unless_it_is_none_or_it_takes_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("draft"));
        let bytes = vec![7; PIECE + 3];
        std::fs::write(&from, &bytes).unwrap();
        let one = chosen(std::slice::from_ref(&from));
        let packed = pack(&one, Manner::Raw, to.clone(), &|| Ok(())).unwrap();
        assert_eq!((packed.size, std::fs::read(&to).unwrap()), (bytes.len() as u64, bytes));
        let ended = || Err(io::Error::other("the step is over"));
        let error = pack(&one, Manner::Raw, to.clone(), &ended).unwrap_err();
        assert_eq!(error, "the step is over");
        std::fs::remove_file(&from).unwrap();
        std::fs::create_dir(&from).unwrap();
        let error = pack(&one, Manner::Raw, to, &|| Ok(())).unwrap_err();
        assert!(error.contains("it is no file any more"), "{error}");
    }
}
