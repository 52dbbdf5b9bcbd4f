//! Connections to PostgreSQL by TLS: whom they trust, and what went wrong in words.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Whose certificate is taken for that of the database. An authority is a file in PEM; without one, those that the
/// system knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Whoever answers: nobody can listen, but somebody could stand between.
    Anybody,
    FromAuthority(Option<PathBuf>),
    /// The same, and it must be for the host in the address.
    ForHost(Option<PathBuf>),
}

/// Makes connections by TLS.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    pub(crate) fn new(trust: &Trust) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let any_host = |authority| AnyHost { authority, provider: Arc::clone(&provider) };
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Anybody => Arc::new(any_host(None)),
            Trust::FromAuthority(file) => {
                Arc::new(any_host(Some(verifier(file.as_deref(), &provider)?)))
            }
            Trust::ForHost(file) => verifier(file.as_deref(), &provider)?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

fn verifier(
    file: Option<&Path>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in authorities(file)? {
                let why = |error| format!("`sslrootcert`: `{}`: {error}", file.display());
                roots.add(certificate).map_err(why)?;
            }
        }
        None => {
            // One of many that cannot be used is no reason to know none.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|_| "this system knows no authorities; name one with `sslrootcert`".to_owned())
}

fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = file.display();
    let pem = std::fs::read(file)
        .map_err(|error| format!("`sslrootcert`: `{shown}` cannot be read: {error}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| format!("`sslrootcert`: `{shown}` is damaged: {error}"))?;
    if found.is_empty() {
        return Err(format!("`sslrootcert`: there is no certificate in PEM in `{shown}`"));
    }
    Ok(found)
}

/// Takes certificates for any host: of whoever it is, or of an authority. Whoever shows one must have its key all the
/// same.
#[derive(Debug)]
struct AnyHost {
    authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(certificate, chain, host, ocsp, now) {
            // The name is looked at last, so one that is wrong in its name alone is right in all else.
            Err(rustls::Error::InvalidCertificate(why)) if is_about_name(&why) => {
                Ok(ServerCertVerified::assertion())
            }
            answer => answer,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn is_about_name(why: &CertificateError) -> bool {
    use CertificateError::{NotValidForName, NotValidForNameContext};
    matches!(why, NotValidForName | NotValidForNameContext { .. })
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Greeting;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Greeting> {
        // A socket of this machine has no host, and the driver asks all the same.
        let name = if host.is_empty() { "localhost" } else { host };
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        Ok(Greeting { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

/// A connection that is about to be encrypted.
pub(crate) struct Greeting {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Greeting
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let greeting = self.connector.connect(self.name, stream);
        Box::pin(async move { greeting.await.map(|stream| Encrypted(Box::new(stream))) })
    }
}

/// A connection by TLS.
pub(crate) struct Encrypted<S>(Box<TlsStream<S>>);

impl<S> tokio_postgres::tls::TlsStream for Encrypted<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    /// A password is proven without it, as over a connection that is not encrypted.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// What to do about a connection that TLS stands in the way of; no further try would change it.
pub(crate) fn explained(error: &tokio_postgres::Error) -> Option<String> {
    let mut cause = error.source();
    while let Some(found) = cause {
        if found.to_string() == "server does not support TLS" {
            return Some(
                "the database speaks no TLS, and the address asks for it; set `ssl = on` in PostgreSQL, or \
                 `sslmode=disable` in the address on a network that you trust"
                    .to_owned(),
            );
        }
        if let Some(why) = rustls_error(found) {
            return Some(said(why));
        }
        cause = found.source();
    }
    None
}

fn rustls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

fn said(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(why) = error else {
        return format!("the database cannot be reached by TLS: {error}");
    };
    let advice = match why {
        // The second where another authority has the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no authority that is known here made it; name the file of its authority with `sslrootcert` in the address"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its time is over; give PostgreSQL a new one"
        }
        other if is_about_name(other) => {
            "it is for another host; write a name that stands in it (as a subject alternative name) into the address, \
             or use `sslmode=verify-ca`"
        }
        _ => "give PostgreSQL one that an authority made for its host",
    };
    format!("the certificate of the database is not taken: {error}; {advice}")
}
