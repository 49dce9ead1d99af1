//! Finds the rules that match a request, by its method and its route.

use std::collections::HashMap;

use ahash::RandomState;
use http::Method;
use matchit::Router;

/// The methods and the pattern of one entry of `routes`, such as `GET,POST /users/{id}`.
#[derive(Debug, Clone)]
pub(super) struct Route {
    /// The entry itself.
    text: Option<Box<str>>,
    methods: Methods,
    /// `None` matches every path.
    pattern: Option<Pattern>,
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

    #[inline]
    fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
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
    pub(super) const EVERY: Self = Self {
        text: None,
        methods: Methods::ALL,
        pattern: None,
    };

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (methods, pattern) = match text.split_once(' ') {
            Some((methods, pattern)) => (Some(methods), Some(pattern)),
            None if text.starts_with('/') => (None, Some(text)),
            None => (Some(text), None),
        };
        Ok(Self {
            text: Some(text.into()),
            methods: methods.map_or(Ok(Methods::ALL), Methods::parse)?,
            pattern: pattern.map(Pattern::parse).transpose()?,
        })
    }

    /// Its text in the file, if it has a pattern.
    pub(super) fn with_pattern(&self) -> Option<&str> {
        self.pattern.as_ref().and(self.text.as_deref())
    }

    /// Whether it matches every request that the other one matches.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let covers_path = match (&self.pattern, &other.pattern) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => own.covers(others),
        };
        self.methods.include(other.methods) && covers_path
    }
}

/// A pattern of paths, in the syntax of axum's routes.
#[derive(Debug, Clone)]
struct Pattern {
    text: Box<str>,
    segments: Box<[Segment]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(Box<str>),
    /// `{name}`: one segment, which is not empty.
    Parameter,
    /// `{*name}`: one segment or more, to the end.
    Rest,
    /// Any other segment with braces.
    Other(Box<str>),
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') {
            return Err(format!("the path {text:?} does not begin with \"/\""));
        }
        if let Err(error) = Router::new().insert(text, ()) {
            return Err(format!("{text:?} is not a pattern of paths: {error}"));
        }
        let segment = |segment: &str| {
            let name = segment
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            match name {
                None if segment.contains(['{', '}']) => Segment::Other(segment.into()),
                None => Segment::Literal(segment.into()),
                Some(name) if name.contains(['{', '}']) => Segment::Other(segment.into()),
                Some(name) if name.starts_with('*') => Segment::Rest,
                Some(_) => Segment::Parameter,
            }
        };
        Ok(Self {
            text: text.into(),
            segments: text[1..].split('/').map(segment).collect(),
        })
    }

    fn is_literal(&self) -> bool {
        let is_literal = |segment: &Segment| matches!(segment, Segment::Literal(_));
        self.segments.iter().all(is_literal)
    }

    /// Whether it matches every path that the other one matches; `false` if that is not certain.
    fn covers(&self, other: &Self) -> bool {
        let (mut own, mut others) = (self.segments.iter(), other.segments.iter());
        loop {
            match (own.next(), others.next()) {
                (None, None) => return true,
                (Some(Segment::Rest), Some(Segment::Literal(first))) => {
                    return !first.is_empty() || others.next().is_some();
                }
                (Some(Segment::Rest), Some(_)) => return true,
                (Some(Segment::Parameter), Some(Segment::Parameter)) => {}
                (Some(Segment::Parameter), Some(Segment::Literal(text))) if !text.is_empty() => {}
                (Some(own), Some(other)) if own == other => {}
                _ => return false,
            }
        }
    }

    /// Whether one path may match both; `true` if that is not certain.
    fn overlaps(&self, other: &Self) -> bool {
        let (mut own, mut others) = (self.segments.iter(), other.segments.iter());
        loop {
            match (own.next(), others.next()) {
                (Some(Segment::Rest), _) | (_, Some(Segment::Rest)) | (None, None) => return true,
                (None, Some(_)) | (Some(_), None) => return false,
                (Some(Segment::Literal(own)), Some(Segment::Literal(other))) if own != other => {
                    return false;
                }
                _ => {}
            }
        }
    }
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
        self.methods.include(method)
    }
}

/// All rules, found by path.
///
/// A path is first looked up in a table, which has the literal paths, and the patterns as axum
/// spells a matched route. Any other path is matched against the patterns with parameters. A
/// `matchit` router returns only the most specific pattern that matches. So patterns that may match
/// the same path are in different routers: usually there are one to three.
#[derive(Default)]
pub(super) struct Routes {
    table: HashMap<Box<str>, Box<[Candidate]>, RandomState>,
    longest: usize,
    routers: Vec<Router<Box<[Candidate]>>>,
    /// The rules that match every path.
    every_path: Vec<Candidate>,
    most: usize,
}

impl Routes {
    /// Makes the table of these routes, each with the number of its rule and its cost, in the order
    /// of the rules.
    pub(super) fn new<'a>(
        routes: impl IntoIterator<Item = (&'a Route, u32, u32)>,
        weight: impl Fn(u32) -> usize,
    ) -> Self {
        let mut built = Self::default();
        let mut patterns: Vec<&Pattern> = Vec::new();
        let mut by_pattern: HashMap<&str, Vec<Candidate>> = HashMap::new();
        for (number, (route, rule, cost)) in (0..).zip(routes) {
            let candidate = Candidate {
                rule,
                route: number,
                cost,
                methods: route.methods,
            };
            match &route.pattern {
                None => built.every_path.push(candidate),
                Some(pattern) => {
                    let candidates = by_pattern.entry(&pattern.text).or_default();
                    if candidates.is_empty() {
                        patterns.push(pattern);
                    }
                    candidates.push(candidate);
                }
            }
        }
        let mut in_routers: Vec<Vec<&Pattern>> = Vec::new();
        for pattern in patterns.iter().filter(|pattern| !pattern.is_literal()) {
            let value = || by_pattern[&*pattern.text].clone().into_boxed_slice();
            let free = (0..in_routers.len()).find(|&at| {
                !in_routers[at].iter().any(|other| other.overlaps(pattern))
                    && built.routers[at].insert(&*pattern.text, value()).is_ok()
            });
            match free {
                Some(at) => in_routers[at].push(pattern),
                None => {
                    let mut router = Router::new();
                    // The pattern is valid: it was inserted into a router of its own when it was
                    // read.
                    let inserted = router.insert(&*pattern.text, value());
                    debug_assert!(inserted.is_ok(), "{inserted:?}");
                    built.routers.push(router);
                    in_routers.push(vec![pattern]);
                }
            }
        }
        let heaviest = in_routers.iter().map(|patterns| {
            let weights = patterns
                .iter()
                .map(|pattern| weight_of(&by_pattern[&*pattern.text], &weight));
            weights.max().unwrap_or(0)
        });
        built.most = heaviest.sum::<usize>() + weight_of(&built.every_path, &weight);
        for pattern in patterns {
            let mut candidates = by_pattern[&*pattern.text].clone();
            // A pattern matches itself, unless it has braces that are not a parameter.
            let own = &by_pattern[&*pattern.text];
            let is_own = |other: &&Candidate| own.iter().any(|own| own.rule == other.rule);
            let matched = built.matched(&pattern.text).flatten();
            candidates.extend(matched.filter(|other| !is_own(other)));
            candidates.extend(&built.every_path);
            candidates.sort_by_key(|candidate| candidate.rule);
            built.most = built.most.max(weight_of(&candidates, &weight));
            built.longest = built.longest.max(pattern.text.len());
            built.table.insert(pattern.text.clone(), candidates.into());
        }
        built
    }

    /// The rules that the routers find for a path.
    fn matched<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a [Candidate]> {
        let found = self
            .routers
            .iter()
            .filter_map(move |router| router.at(path).ok());
        found.map(|found| &**found.value)
    }

    /// The rules that match a path, in order, if it is in the table.
    #[inline]
    pub(super) fn known(&self, path: &str) -> Option<&[Candidate]> {
        // A path of any length costs no more than the longest pattern.
        if path.len() > self.longest {
            return None;
        }
        self.table.get(path).map(|candidates| &**candidates)
    }

    /// The rules that match a path which is not in the table, in order. Several lists are merged
    /// into `room`.
    pub(super) fn by_pattern<'a>(
        &'a self,
        path: &'a str,
        room: &'a mut Vec<Candidate>,
    ) -> &'a [Candidate] {
        let mut matched = self.matched(path);
        match (matched.next(), matched.next()) {
            (None, _) => &self.every_path,
            (Some(one), None) if self.every_path.is_empty() => one,
            (Some(one), other) => {
                room.extend(one);
                room.extend(other.into_iter().chain(matched).flatten());
                room.extend(&self.every_path);
                room.sort_by_key(|candidate| candidate.rule);
                room
            }
        }
    }

    /// The largest weight of rules that may match one request.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

/// The weight of all rules among these, which are in the order of the rules.
fn weight_of(candidates: &[Candidate], weight: impl Fn(u32) -> usize) -> usize {
    let mut rules: Vec<_> = candidates.iter().map(|candidate| candidate.rule).collect();
    rules.dedup();
    rules.into_iter().map(weight).sum()
}
