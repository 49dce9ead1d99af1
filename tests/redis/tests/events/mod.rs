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
pub(crate) struct Told {
    pub(crate) level: Level,
    pub(crate) message: String,
    /// Each field as ` name=value`.
    pub(crate) fields: String,
}

impl Told {
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

static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());

/// Writes down the events of all stores of this process from now on.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    let write_down = |event: &Event<'_>| {
        if event.metadata().target() == "tollgate::store" {
            let mut told = Told {
                level: *event.metadata().level(),
                message: String::new(),
                fields: String::new(),
            };
            event.record(&mut told);
            println!("{told:?}");
            TOLD.lock().unwrap().push(told);
        }
    };
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener(write_down)).unwrap());
}

/// The events of stores with this prefix, in order.
pub(crate) fn told_by(prefix: &str) -> Vec<Told> {
    let is_its = format!(" prefix=\"{prefix}\"");
    let told = TOLD.lock().unwrap();
    let its = told.iter().filter(|told| told.fields.contains(&is_its));
    its.cloned().collect()
}

/// The events about connections to the server on this port, in order.
pub(crate) fn told_of(port: u16) -> Vec<Told> {
    let is_its = format!(" server=\"127.0.0.1:{port}\"");
    let told = TOLD.lock().unwrap();
    let its = told.iter().filter(|told| told.fields.contains(&is_its));
    its.cloned().collect()
}

/// The events whose message begins like this.
pub(crate) fn beginning<'a>(told: &'a [Told], with: &str) -> Vec<&'a Told> {
    let begins = |told: &&Told| told.message.starts_with(with);
    told.iter().filter(begins).collect()
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => {
                let _ = write!(self.fields, " {name}={value:?}");
            }
        }
    }
}
