//! Certificates for tests of TLS, of an authority that nobody else knows.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cluster::command;

/// An authority, and certificates that it makes.
#[derive(Debug)]
pub struct Certificates(PathBuf);

impl Certificates {
    /// An authority whose files lie below this place.
    pub fn new(place: &Path) -> Self {
        let made = Self(place.join("certificates"));
        fs::create_dir_all(&made.0).expect("the place is ours");
        let subject =
            ["-subj", "/CN=an authority of a test", "-keyout", "ca.key", "-out", "ca.pem"];
        made.openssl(&[&NEW_KEY[..], &["-x509", "-days", "2"], &subject].concat());
        made
    }

    pub fn authority(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    /// The files of a certificate for these names and its key.
    pub fn make(&self, name: &str, names: &str) -> (String, String) {
        let (cert, key) = (format!("{name}.pem"), format!("{name}.key"));
        fs::write(self.0.join("extensions"), format!("subjectAltName={names}\n"))
            .expect("it is ours");
        let subject = ["-subj", "/CN=a server of a test", "-keyout", &key, "-out", "request.pem"];
        self.openssl(&[&NEW_KEY[..], &subject].concat());
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            "request.pem",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "extensions",
            "-out",
            &cert,
        ]);
        let path = |file: &str| self.0.join(file).to_string_lossy().into_owned();
        (path(&cert), path(&key))
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = command("openssl").args(arguments).current_dir(&self.0).output();
        let output = output.expect("openssl is installed: run scripts/test");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments:?}: {said}");
    }
}

const NEW_KEY: [&str; 6] =
    ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
