//! A limiter and its time, so that one history can be played to all.

use std::time::{Duration, Instant};

use tollgate_peers::peers::Reply;

/// So many units in each period, and `burst` at once.
#[derive(Clone, Copy)]
pub(crate) struct Bucket {
    pub(crate) units: u32,
    pub(crate) period: Duration,
    pub(crate) burst: u32,
}

impl Bucket {
    /// How long a unit takes to come back.
    pub(crate) fn interval(self) -> Duration {
        self.period / self.units
    }
}

/// One key of a limiter, and the time that the limiter sees.
pub(crate) trait Subject {
    /// A request of so many units; none where the limiter knows requests of one unit only.
    fn ask(&mut self, cost: u32) -> Option<Reply>;

    /// The same, of which only yes or no is wanted.
    fn take(&mut self, cost: u32) -> Option<bool> {
        self.ask(cost).map(|answer| answer.is_ok())
    }

    /// Lets time pass.
    fn wait(&mut self, time: Duration);

    /// The time since the beginning, as far as the limiter can know.
    fn elapsed(&mut self) -> Duration;

    /// Puts the clock back, if it is one that can be put.
    fn step_back(&mut self, time: Duration) -> bool;
}

/// Requests of one unit, as fast as they can be made; how many were admitted.
pub(crate) fn at_once(subject: &mut dyn Subject, requests: u32) -> u64 {
    let admitted = (0..requests).filter(|_| admits(subject));
    admitted.count() as u64
}

/// A request of one unit.
pub(crate) fn admits(subject: &mut dyn Subject) -> bool {
    subject.take(1).expect("every limiter knows one unit")
}

/// The answer of a limiter that says yes or no.
pub(crate) fn yes_or_no(admitted: bool) -> Reply {
    match admitted {
        true => Ok(()),
        false => Err(None),
    }
}

/// A limiter that reads the real clock.
pub(crate) struct RealTime<F> {
    ask: F,
    since: Instant,
}

impl<F: FnMut(u32) -> Option<Reply>> RealTime<F> {
    pub(crate) fn boxed<'a>(ask: F) -> Box<dyn Subject + 'a>
    where
        F: 'a,
    {
        let since = Instant::now();
        Box::new(Self { ask, since })
    }
}

impl<F: FnMut(u32) -> Option<Reply>> Subject for RealTime<F> {
    fn ask(&mut self, cost: u32) -> Option<Reply> {
        (self.ask)(cost)
    }

    fn wait(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn elapsed(&mut self) -> Duration {
        self.since.elapsed()
    }

    fn step_back(&mut self, _time: Duration) -> bool {
        false
    }
}

/// A limiter that is told the time: the time since the beginning is the first argument.
pub(crate) struct ToldTime<F> {
    ask: F,
    now: Duration,
    forth: Duration,
}

/// Where told times begin, so that there is room to step back.
pub(crate) const BEGINNING: Duration = Duration::from_secs(10_000_000);

impl<F: FnMut(Duration, u32) -> Option<Reply>> ToldTime<F> {
    pub(crate) fn boxed<'a>(ask: F) -> Box<dyn Subject + 'a>
    where
        F: 'a,
    {
        let (now, forth) = (BEGINNING, Duration::ZERO);
        Box::new(Self { ask, now, forth })
    }
}

impl<F: FnMut(Duration, u32) -> Option<Reply>> Subject for ToldTime<F> {
    fn ask(&mut self, cost: u32) -> Option<Reply> {
        (self.ask)(self.now, cost)
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.forth += time;
    }

    fn elapsed(&mut self) -> Duration {
        self.forth
    }

    fn step_back(&mut self, time: Duration) -> bool {
        self.now -= time;
        true
    }
}
