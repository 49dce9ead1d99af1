//! How servers are reached, by clients and by each other.

use fred::types::config::{Config, ServerConfig};

/// What servers and their clients have in common: plain TCP by default, or TLS.
#[derive(Clone, Debug, Default)]
pub struct Link {
    args: Option<Vec<String>>,
    config: Config,
}

impl Link {
    /// Over TLS: servers have these arguments, and clients the TLS of this configuration. It is the
    /// test that makes it: whoever else uses these fixtures builds the client without TLS.
    pub fn over_tls(args: Vec<String>, config: Config) -> Self {
        Self {
            args: Some(args),
            config,
        }
    }

    /// The arguments of a server on this port.
    pub(crate) fn args(&self, port: u16) -> Vec<String> {
        let port = port.to_string();
        match &self.args {
            None => vec!["--port".to_owned(), port],
            Some(args) => {
                let own = ["--port", "0", "--tls-port", &port].map(str::to_owned);
                own.into_iter().chain(args.iter().cloned()).collect()
            }
        }
    }

    /// What a client needs to connect there.
    pub(crate) fn config(&self, server: ServerConfig) -> Config {
        Config {
            server,
            ..self.config.clone()
        }
    }
}
