//! HTTPS: a certificate and its key from two files, read again when they change.
//!
//! Connections that are open stay as they are; those that come find what the files hold now. Files that
//! cannot be used leave the server with what it had, and a line in its log.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{InconsistentKeys, ServerConfig, crypto};
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// No certificate with its chain is so large.
const LARGEST: u64 = 1 << 20;
/// What is spoken on a connection, the best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Time, length and number of each file.
type Marks = [Option<(SystemTime, u64, u64)>; 2];

/// Where certificate and key lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, and those that lead from it to an authority.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Which of the files is wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    Cert(String),
    Key(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cert(why) => write!(f, "tls_cert: {why}"),
            Self::Key(why) => write!(f, "tls_key: {why}"),
        }
    }
}

impl Files {
    /// What connections need, if the files fit together.
    pub fn load(&self) -> Result<Arc<ServerConfig>, Fault> {
        let chain = chain(&read(&self.cert).map_err(Fault::Cert)?).map_err(Fault::Cert)?;
        let key = key(&read(&self.key).map_err(Fault::Key)?).map_err(Fault::Key)?;
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::Cert(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Fault::Key(format!(
                "this is not the key of the certificate in `{}`",
                self.cert.display()
            )),
            rustls::Error::InvalidCertificate(why) => {
                Fault::Cert(format!("the certificate cannot be used: {why}"))
            }
            other => Fault::Key(format!("the key cannot be used: {other}")),
        })?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }

    /// What changes when a file does, or the link that leads to it.
    fn marks(&self) -> Marks {
        use std::os::unix::fs::MetadataExt as _;
        [&self.cert, &self.key].map(|path| {
            let about = std::fs::metadata(path).ok()?;
            Some((about.modified().ok()?, about.len(), about.ino()))
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("`{}` cannot be read: {error}", path.display());
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err("there is no certificate in PEM in it".to_owned()),
        Err(error) => Err(format!("the certificates in it are damaged: {error}")),
    }
}

fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let locked = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    if pem.windows(locked.len()).any(|piece| piece == locked) {
        return Err("the key has a password; expected one without".to_owned());
    }
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| "there is no private key in PEM in it".to_owned())
}

/// The certificate as it is now.
#[derive(Debug)]
pub(crate) struct Tls {
    files: Files,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    pub(crate) fn open(files: Files) -> Result<Arc<Self>, Fault> {
        let current = RwLock::new(files.load()?);
        Ok(Arc::new(Self { files, current }))
    }

    /// For one connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }

    /// Looks at the files until the server stops.
    pub(crate) async fn follow(self: Arc<Self>, stopping: CancellationToken) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = None;
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let (tls, before) = (Arc::clone(&self), seen);
            let looked = tokio::task::spawn_blocking(move || tls.look(before)).await;
            seen = looked.ok().or(seen);
        }
    }

    /// Takes over what changed. The two files need not change at once: what does not fit together yet is
    /// looked at again when the other one changes.
    fn look(&self, before: Option<Marks>) -> Marks {
        let marks = self.files.marks();
        // The first time nobody knows whether they changed since the start.
        if before == Some(marks) {
            return marks;
        }
        match self.files.load() {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
                if before.is_some() {
                    tracing::info!("the certificate has changed; new connections get the new one");
                }
            }
            Err(fault) => {
                tracing::error!(%fault, "the certificate has changed and cannot be used; the old one stays");
            }
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A certificate that signs itself, and its key.
    #[expect(clippy::disallowed_methods, reason = "nothing in the tree makes certificates")]
    fn make(folder: &Path, name: &str) -> Files {
        let path = |end: &str| folder.join(format!("{name}.{end}"));
        let files = Files { cert: path("crt"), key: path("key") };
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "2", "-subj", "/CN=localhost", "-out"])
            .arg(&files.cert)
            .arg("-keyout")
            .arg(&files.key)
            .output()
            .expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        files
    }

    #[track_caller]
    fn check(files: &Files, expect: &str) {
        let fault = files.load().map(|_| ()).unwrap_err();
        assert!(fault.to_string().contains(expect), "{fault}");
    }

    #[test]
    fn files_that_do_not_fit_are_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (make(folder.path(), "one"), make(folder.path(), "two"));
        one.load().unwrap();
        check(&Files { key: two.key.clone(), ..one.clone() }, "tls_key: this is not the key of");
        check(&Files { cert: folder.path().join("none"), ..one.clone() }, "none` cannot be read");
        check(
            &Files { cert: one.key.clone(), ..one.clone() },
            "tls_cert: there is no certificate in PEM",
        );
        check(
            &Files { key: one.cert.clone(), ..one.clone() },
            "tls_key: there is no private key in PEM",
        );
        let locked = folder.path().join("locked");
        std::fs::write(
            &locked,
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
        )
        .unwrap();
        check(&Files { key: locked, ..one.clone() }, "tls_key: the key has a password");
        std::fs::write(&one.cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .unwrap();
        check(&one, "tls_cert: the certificate cannot be used");
    }

    /// The two files change one after the other, as programs write them.
    #[test]
    fn what_changes_is_taken_over_once_it_fits_together() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (make(folder.path(), "one"), make(folder.path(), "two"));
        let tls = Tls::open(one.clone()).unwrap();
        let current = || Arc::clone(&tls.current.read().unwrap());
        let seen = tls.look(None);
        let first = current();
        assert_eq!(tls.look(Some(seen)), seen);
        std::fs::rename(&two.cert, &one.cert).unwrap();
        let half = tls.look(Some(seen));
        assert_ne!(half, seen);
        assert!(Arc::ptr_eq(&first, &current()), "half of a change counts for nothing");
        std::fs::rename(&two.key, &one.key).unwrap();
        tls.look(Some(half));
        assert!(!Arc::ptr_eq(&first, &current()));
    }
}
