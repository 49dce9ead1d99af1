//! Finds the rules that match a request, by its method and its route.

use std::{collections::HashMap, hash::BuildHasherDefault};

use ahash::AHasher;
use http::Method;

/// By text of the file: no caller can put anything in, so it needs no seed of its own.
type ByText<T> = HashMap<Box<str>, T, BuildHasherDefault<AHasher>>;

/// The methods and the pattern of one entry of `routes`, such as `GET,POST /users/{id}`.
#[derive(Debug)]
pub(super) struct Route {
    /// The entry itself.
    text: Box<str>,
    methods: Methods,
    /// Without the slash that it begins with. `None` matches every path.
    pattern: Option<Box<str>>,
}

/// A set of methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Methods(u16);

/// The HTTP methods, each with a bit.
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::OPTIONS,
    Method::CONNECT,
    Method::TRACE,
];

impl Methods {
    const ALL: Self = Self(u16::MAX);
    /// The bit of every other method.
    const OTHER: Self = Self(1 << METHODS.len());
    const GET_AND_HEAD: u16 = 0b11;

    pub(super) fn of(method: &Method) -> Self {
        let bit = METHODS.iter().position(|known| known == method);
        bit.map_or(Self::OTHER, |bit| Self(1 << bit))
    }

    /// `GET` includes `HEAD`: routers serve it with the same handler.
    fn parse(list: &str) -> Result<Self, String> {
        let mut methods = 0;
        for name in list.split(',') {
            match METHODS.iter().position(|known| known.as_str() == name) {
                Some(0) => methods |= Self::GET_AND_HEAD,
                Some(bit) => methods |= 1 << bit,
                None => return Err(format!("{name:?} is not a method of HTTP, such as \"GET\"")),
            }
        }
        Ok(Self(methods))
    }
}

impl Route {
    /// Every request.
    pub(super) fn every() -> Self {
        Self {
            text: "".into(),
            methods: Methods::ALL,
            pattern: None,
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (methods, pattern) = match text.split_once(' ') {
            Some((methods, pattern)) => (Some(methods), Some(pattern)),
            None if text.starts_with('/') => (None, Some(text)),
            None => (Some(text), None),
        };
        Ok(Self {
            text: text.into(),
            methods: methods.map_or(Ok(Methods::ALL), Methods::parse)?,
            pattern: pattern.map(parse_pattern).transpose()?,
        })
    }

    /// Its text in the file, if it has a pattern.
    pub(super) fn with_pattern(&self) -> Option<&str> {
        self.pattern.as_ref().map(|_| &*self.text)
    }
}

/// A pattern in the syntax of axum's routes.
fn parse_pattern(text: &str) -> Result<Box<str>, String> {
    let Some(pattern) = text.strip_prefix('/') else {
        return Err(format!("the path {text:?} does not begin with \"/\""));
    };
    let mut segments = pattern.split('/').peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split_once('{').map(|(_, name)| name);
        let is_well_formed = match name {
            None => !segment.contains('}'),
            Some(name) => {
                let is_last = segments.peek().is_none();
                let rest = is_last && segment.starts_with('{');
                let name = name.strip_suffix('}').unwrap_or_default();
                let name = name.strip_prefix('*').filter(|_| rest).unwrap_or(name);
                !name.is_empty() && !name.contains(['{', '}', '*'])
            }
        };
        if !is_well_formed {
            return Err(format!(
                "{text:?} is not a pattern of paths: {segment:?} is neither a text, nor a \
                 parameter such as \"{{id}}\", nor \"{{*rest}}\" at the end"
            ));
        }
    }
    Ok(pattern.into())
}

/// A rule that matches a path, and maybe the method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// The number of the rule, counted from 0.
    pub(super) rule: u32,
    /// The number of the route, among those of all rules.
    pub(super) route: u32,
    /// The cost of a request of this route.
    pub(super) cost: u32,
    methods: Methods,
}

impl Candidate {
    #[inline]
    pub(super) fn is_for(&self, method: Methods) -> bool {
        self.methods.0 & method.0 == method.0
    }
}

/// All rules, found by path.
#[derive(Default)]
pub(super) struct Routes {
    /// All routes, in the order of the file, with their patterns: one without matches every path.
    all: Vec<(Option<Box<str>>, Candidate)>,
    /// The rules that match each of the patterns, taken as a path: axum spells a matched route so.
    known: ByText<Box<[Candidate]>>,
}

impl Routes {
    /// Adds a route of a rule, after all those of the rules before it.
    pub(super) fn add(&mut self, route: &Route, rule: u32, cost: u32) {
        let candidate = Candidate {
            rule,
            route: self.all.len() as u32,
            cost,
            methods: route.methods,
        };
        self.all.push((route.pattern.clone(), candidate));
    }

    /// Makes the table of all patterns, when all routes are added.
    pub(super) fn finish(&mut self) {
        let patterns = self.all.iter().filter_map(|(pattern, _)| pattern.as_ref());
        let known = patterns.map(|pattern| {
            let path = format!("/{pattern}");
            let found = self.matching(&path, &mut Vec::new()).into();
            (path.into(), found)
        });
        self.known = known.collect();
    }

    /// The rules that match a path, whatever the method. What is not in the table is put into
    /// `room`.
    #[inline]
    pub(super) fn matching<'a>(
        &'a self,
        path: &str,
        room: &'a mut Vec<Candidate>,
    ) -> &'a [Candidate] {
        if let Some(known) = self.known.get(path) {
            return known;
        }
        let all = self.all.iter();
        let all = all.filter(|(pattern, _)| matches(pattern.as_deref(), path));
        room.extend(all.map(|(_, candidate)| candidate));
        room
    }

    /// The first of these rules that matches every request of this route.
    pub(super) fn covering(&self, route: &Route, of: impl Fn(u32) -> bool) -> Option<u32> {
        // As a path, `{name}` is a segment that only parameters match. Of no path at all are those
        // that match every path.
        let path = match route.pattern.as_deref() {
            None => String::new(),
            Some(pattern) => match pattern.split_once("{*") {
                Some((before, _)) => format!("/{before}{{"),
                None => format!("/{pattern}"),
            },
        };
        let is_rest = |pattern: &str| pattern.contains("{*");
        let needs_rest = route.pattern.as_deref().is_some_and(is_rest);
        let mut all = self.all.iter().filter(|(pattern, _)| {
            let pattern = pattern.as_deref();
            matches(pattern, &path) && (!needs_rest || pattern.is_none_or(is_rest))
        });
        let first = all.find(|(_, it)| it.is_for(route.methods) && of(it.rule));
        first.map(|(_, it)| it.rule)
    }
}

/// Whether a path has this pattern.
fn matches(pattern: Option<&str>, path: &str) -> bool {
    let Some(pattern) = pattern else {
        return true;
    };
    let mut rest = path.strip_prefix('/');
    for segment in pattern.split('/') {
        let Some(path) = rest else {
            return false;
        };
        let (own, others) = match path.split_once('/') {
            Some((own, others)) => (own, Some(others)),
            None => (path, None),
        };
        let is_matched = match segment.split_once('{') {
            None => own == segment,
            Some((_, name)) if name.starts_with('*') => return !path.is_empty(),
            Some((prefix, _)) => own.len() > prefix.len() && own.starts_with(prefix),
        };
        if !is_matched {
            return false;
        }
        rest = others;
    }
    rest.is_none()
}
