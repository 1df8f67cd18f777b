//! TLS: a certificate and its key.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The certificate and key of encrypted connections.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// The chain of certificates, as PEM. SCRAM-SHA-256-PLUS binds to its first certificate.
    certificate: Arc<[u8]>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads a chain of certificates, and the private key of its first certificate, from two PEM files.
    ///
    /// # Errors
    /// `InvalidInput`, with the name of the file: the file cannot be read or is malformed, or the key does
    /// not fit the certificate.
    pub fn open(certificate: &Path, key: &Path) -> io::Result<Self> {
        let of = |path: &Path, error: String| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {error}", path.display()))
        };
        let pem = std::fs::read(certificate).map_err(|error| of(certificate, error.to_string()))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|error| of(certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(of(certificate, "the file holds no PEM certificate".into()));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, error.to_string()))?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, secret);
        let mut config = config.map_err(|error| of(key, error.to_string()))?;
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate: pem.into() })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }

    pub(crate) fn certificate(&self) -> &[u8] {
        &self.certificate
    }
}
