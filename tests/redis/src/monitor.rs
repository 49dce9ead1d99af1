//! The commands that a server gets, in the order in which it runs them.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpStream},
};

use crate::{server::Server, wait::PATIENCE};

/// A connection to which the server repeats all commands.
#[derive(Debug)]
pub struct Monitor(BufReader<TcpStream>);

/// A command of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The client's port.
    pub port: u16,
    /// The words of the command, quoted as the server prints them.
    pub words: Vec<String>,
}

impl Monitor {
    /// Everything from now on.
    ///
    /// # Panics
    ///
    /// When the server does not let this connection monitor it.
    pub fn of(server: &Server) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port()));
        let stream = stream.expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut monitor = Self(BufReader::new(stream));
        let asked = monitor.0.get_mut().write_all(b"MONITOR\r\n");
        asked.expect("a connection");
        assert_eq!(monitor.line(), "+OK");
        monitor
    }

    /// The commands of clients up to this word, in order; without those of scripts.
    ///
    /// # Panics
    ///
    /// When it does not come.
    pub fn up_to(&mut self, word: &str) -> Vec<Command> {
        let mut all = Vec::new();
        loop {
            let line = self.line();
            // `+1700000000.123456 [0 127.0.0.1:53712] "EVALSHA" "…"`
            let (_, line) = line.split_once('[').expect("a client");
            let (client, words) = line.split_once("] ").expect("words");
            let words: Vec<_> = words
                .split(' ')
                .map(|it| it.trim_matches('"').to_owned())
                .collect();
            if words.iter().any(|it| it == word) {
                return all;
            }
            let port = client
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse().ok());
            all.extend(port.map(|port| Command { port, words }));
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        assert!(read.expect("a line in time") > 0, "the server has gone");
        line.trim_end().to_owned()
    }
}
