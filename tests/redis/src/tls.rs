//! A server that listens through TLS alone.

use std::{fs, sync::Arc};

use fred::{
    clients::Client,
    rustls::{ClientConfig, RootCertStore, crypto::ring},
    types::config::{Config, TlsConfig, TlsConnector},
};

use crate::{
    client::{connect, host},
    process::Kind,
    server::{Server, owned},
};

/// A server behind TLS, with a certificate for `127.0.0.1` that was made for it and that nobody
/// else trusts.
#[derive(Debug)]
pub struct TlsServer {
    server: Server,
    certificate: String,
}

impl TlsServer {
    /// Starts a server and waits until it takes connections.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with arguments of its own, each word apart:
    /// `&["--user", "reader", "on", ">word", "~*", "+get"]`.
    ///
    /// # Panics
    ///
    /// When it ends at once, as one that was built without TLS does: the message has what it
    /// printed.
    pub async fn start_with(args: &[&str]) -> Self {
        let made = rcgen::generate_simple_self_signed([host(), "localhost".to_owned()]);
        let made = made.expect("a certificate");
        let mut roots = RootCertStore::empty();
        let trusted = roots.add(made.cert.der().clone());
        trusted.expect("a certificate that can be trusted");
        // Named, since another crate in the same build may bring a second one.
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = TlsConfig::from(TlsConnector::from(client));
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let server = Server::launch(Kind::Tls, Some(tls), |folder| {
            let file = |name: &str, text: &str| {
                let file = folder.join(name);
                fs::write(&file, text).expect("a file beside the server");
                file.to_str()
                    .expect("a directory with a plain name")
                    .to_owned()
            };
            let certificate_file = file("certificate.pem", &certificate);
            let key_file = file("key.pem", &key);
            let mut all = owned(&["--port", "0", "--tls-auth-clients", "no"]);
            all.extend(owned(&["--tls-cert-file", &certificate_file]));
            all.extend(owned(&["--tls-key-file", &key_file]));
            all.extend(owned(&["--tls-ca-cert-file", &certificate_file]));
            all.extend(owned(args));
            all
        });
        Self {
            server: server.await,
            certificate,
        }
    }

    /// The server itself, with all that can be done to one; what it says goes through TLS.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The certificate that a client must trust, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// What a client needs to connect as this user.
    pub fn config(&self, user: &str, password: &str) -> Config {
        self.server.config_of(user, password)
    }

    /// A client that is connected, as this user.
    pub async fn client(&self, user: &str, password: &str) -> Client {
        connect(self.config(user, password)).await
    }
}
