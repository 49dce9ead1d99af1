//! The extensions that a file of rules names, and where the log has their values.

use http::{Extensions, HeaderName, Request};
use tollgate::rules::Rules;

/// Where the value of an extension is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It is the user that the log names.
    RemoteUser,
    /// It is the value of this header field.
    Header(HeaderName),
    /// The log does not have it.
    Nowhere,
}

/// The extensions that a file names, each with where its value is found.
#[derive(Debug, Clone, Default)]
pub struct ExtensionSources(Vec<(String, Source)>);

/// The value of the extension with this number. Each has its own type, as extensions are found by
/// type.
#[derive(Clone)]
struct Carried<const NUMBER: usize>(String);

/// What is done with the extension of one number.
struct Slot {
    register: fn(Rules, &str) -> Rules,
    set: fn(&mut Extensions, Option<String>),
    read: fn(&Extensions) -> Option<&str>,
}

/// The most extensions that a file may name.
pub const MAX_EXTENSIONS: usize = SLOTS.len();

const SLOTS: [Slot; 8] = [
    Slot::of::<0>(),
    Slot::of::<1>(),
    Slot::of::<2>(),
    Slot::of::<3>(),
    Slot::of::<4>(),
    Slot::of::<5>(),
    Slot::of::<6>(),
    Slot::of::<7>(),
];

impl Slot {
    const fn of<const NUMBER: usize>() -> Self {
        Self {
            register: |rules, name| {
                rules.extension(name, |carried: &Carried<NUMBER>| carried.0.clone())
            },
            set: |extensions, value| match value {
                Some(value) => {
                    extensions.insert(Carried::<NUMBER>(value));
                }
                None => {
                    extensions.remove::<Carried<NUMBER>>();
                }
            },
            read: |extensions| Some(&extensions.get::<Carried<NUMBER>>()?.0),
        }
    }
}

impl ExtensionSources {
    /// Finds a source for each name of the file among these, which are `NAME=remote_user` or
    /// `NAME=header:FIELD`.
    ///
    /// # Errors
    ///
    /// One of them is written wrongly, or is for a name that the file does not have; or the file
    /// has too many.
    pub fn new(names: Vec<String>, given: &[String]) -> Result<Self, String> {
        if names.len() > MAX_EXTENSIONS {
            let found = names.len();
            return Err(format!(
                "the rules name {found} extensions: the maximum is {MAX_EXTENSIONS}"
            ));
        }
        let mut sources: Vec<_> = names
            .into_iter()
            .map(|name| (name, Source::Nowhere))
            .collect();
        for text in given {
            let (name, source) = read(text)?;
            let Some(place) = sources.iter_mut().find(|(known, _)| known == name) else {
                return Err(format!("--extension {text}: no rule names {name:?}"));
            };
            place.1 = source;
        }
        Ok(Self(sources))
    }

    /// Registers the extensions, so that the file can name them.
    pub fn register(&self, rules: Rules) -> Rules {
        let named = self.0.iter().zip(&SLOTS);
        named.fold(rules, |rules, ((name, _), slot)| {
            (slot.register)(rules, name)
        })
    }

    /// The header fields in which values are found.
    pub fn header_names(&self) -> impl Iterator<Item = HeaderName> {
        self.0.iter().filter_map(|(_, source)| match source {
            Source::Header(name) => Some(name.clone()),
            Source::RemoteUser | Source::Nowhere => None,
        })
    }

    /// The source of an extension.
    pub fn of(&self, name: &str) -> &Source {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or(&Source::Nowhere, |(_, source)| source)
    }

    /// What a request carries under this name.
    pub fn value<'a>(&self, name: &str, request: &'a Request<()>) -> Option<&'a str> {
        let mut named = self.0.iter().zip(&SLOTS);
        let (_, slot) = named.find(|((known, _), _)| known == name)?;
        (slot.read)(request.extensions())
    }

    /// The names of those that the log does not have.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let missing = self.0.iter().filter(|(_, of)| *of == Source::Nowhere);
        missing.map(|(name, _)| &**name)
    }

    /// Puts this value of an extension into a request.
    ///
    /// # Errors
    ///
    /// No rule names it.
    pub fn set(&self, name: &str, value: String, request: &mut Request<()>) -> Result<(), String> {
        let mut named = self.0.iter().zip(&SLOTS);
        let found = named.find(|((known, _), _)| known == name);
        let (_, slot) = found.ok_or_else(|| format!("no rule names {name:?}"))?;
        (slot.set)(request.extensions_mut(), Some(value));
        Ok(())
    }

    /// Puts the values of a line into a request.
    pub fn put(&self, user: Option<&str>, request: &mut Request<()>) {
        for ((_, source), slot) in self.0.iter().zip(&SLOTS) {
            let value = match source {
                Source::Nowhere => continue,
                Source::RemoteUser => user.map(str::to_owned),
                Source::Header(name) => {
                    let value = request.headers().get(name);
                    value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                }
            };
            (slot.set)(request.extensions_mut(), value);
        }
    }
}

fn read(text: &str) -> Result<(&str, Source), String> {
    let (name, source) = text.split_once('=').unwrap_or((text, ""));
    let source = match source.strip_prefix("header:") {
        Some(field) => match HeaderName::from_bytes(field.as_bytes()) {
            Ok(field) => Source::Header(field),
            Err(_) => {
                return Err(format!(
                    "--extension {text}: {field:?} is not a header name"
                ));
            }
        },
        None if source == "remote_user" => Source::RemoteUser,
        None => {
            return Err(format!(
                "--extension {text}: it must be NAME=remote_user or NAME=header:FIELD"
            ));
        }
    };
    Ok((name, source))
}
