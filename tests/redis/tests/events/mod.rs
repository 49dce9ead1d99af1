//! Writes down the events of a store.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    fmt::{Debug, Write},
    sync::{Mutex, Once},
};

use tracing::{
    Event, Level,
    field::{Field, Visit},
};

use crate::listener::Listener;

/// One event of the stores here.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) level: Level,
    pub(crate) message: String,
    /// Each field as ` name=value`.
    pub(crate) fields: String,
}

impl Logged {
    /// The value of a field that is a number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let start = format!(" {name}=");
        let after = self.fields.split(&start).nth(1);
        let digits = after.map(|after| after.split(' ').next().unwrap_or(""));
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("no number {name} in {self:?}"))
    }
}

static LOGGED: Mutex<Vec<Logged>> = Mutex::new(Vec::new());

/// Writes down the events of all stores of this process from now on.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    let write_down = |event: &Event<'_>| {
        if event.metadata().target() == "tollgate::store" {
            let mut told = Logged {
                level: *event.metadata().level(),
                message: String::new(),
                fields: String::new(),
            };
            event.record(&mut told);
            println!("{told:?}");
            LOGGED.lock().unwrap().push(told);
        }
    };
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener(write_down)).unwrap());
}

/// The events of stores with this prefix, in order.
pub(crate) fn logged_by(prefix: &str) -> Vec<Logged> {
    logged_with(&format!(" prefix=\"{prefix}\""))
}

/// The events about connections to the server on this port, in order.
pub(crate) fn logged_of(port: u16) -> Vec<Logged> {
    logged_with(&format!(" server=\"127.0.0.1:{port}\""))
}

fn logged_with(field: &str) -> Vec<Logged> {
    let told = LOGGED.lock().unwrap();
    let its = told.iter().filter(|told| told.fields.contains(field));
    its.cloned().collect()
}

/// The events whose message begins like this.
pub(crate) fn beginning<'a>(told: &'a [Logged], with: &str) -> Vec<&'a Logged> {
    let begins = |told: &&Logged| told.message.starts_with(with);
    told.iter().filter(begins).collect()
}

impl Visit for Logged {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => {
                let _ = write!(self.fields, " {name}={value:?}");
            }
        }
    }
}
