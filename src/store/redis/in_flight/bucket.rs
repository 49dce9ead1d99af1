//! The places of one bucket that this process has.

use std::{
    any::TypeId,
    iter,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::watch;

use crate::algorithm::Member;

use super::super::{
    ARGUMENTS_LEN,
    arguments::{bytes_of, push_renewal},
    run::LATE_TIMEOUT,
    scripts::{ScriptCache, Scripts},
};

/// A bucket in which this process has requests in flight.
pub(super) struct Bucket {
    pub(super) scripts: ScriptsOf,
    pub(super) keys: Vec<Bytes>,
    pub(super) parameters: Vec<u8>,
    pub(super) every: Duration,
    pub(super) due: Instant,
    /// How many numbers an admission has.
    pub(super) starts: usize,
    /// How many requests are in flight.
    pub(super) running: u64,
    /// The places that they have.
    pub(super) lots: Vec<Lot>,
    /// How many more are in lots that are being renewed.
    pub(super) being_renewed: u64,
    /// How many renewals are not answered yet.
    pub(super) unanswered_renewals: usize,
    /// Tells when a renewal is over.
    pub(super) renewals: watch::Sender<()>,
}

/// The scripts of a type of algorithm.
#[derive(Clone, Copy)]
pub(super) struct ScriptsOf {
    pub(super) algorithm: TypeId,
    pub(super) find: fn(&ScriptCache<Scripts>) -> &Scripts,
}

/// Places of the same generation: the numbers of an admission that took one, and how many they are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lot {
    pub(super) starts: Vec<f64>,
    pub(super) places: u64,
}

/// A lot that is to be renewed, and what is sent for it.
pub(super) struct Renewal {
    pub(super) bucket: Bytes,
    pub(super) scripts: ScriptsOf,
    pub(super) keys: Vec<Bytes>,
    pub(super) lot: Lot,
    pub(super) arguments: Bytes,
    pub(super) timeout: Duration,
}

/// A place that is to be given back.
pub(super) struct Ended {
    pub(super) scripts: ScriptsOf,
    pub(super) keys: Vec<Bytes>,
    pub(super) parameters: Vec<u8>,
    pub(super) starts: Vec<f64>,
}

impl Bucket {
    pub(super) fn places(&self) -> u64 {
        self.being_renewed + self.lots.iter().map(|lot| lot.places).sum::<u64>()
    }

    pub(super) fn add(&mut self, lot: Lot) {
        match self
            .lots
            .iter_mut()
            .find(|known| known.starts == lot.starts)
        {
            Some(known) => known.places += lot.places,
            None if lot.places > 0 => self.lots.push(lot),
            None => {}
        }
    }

    /// Takes out a place that no request needs, of the oldest lot.
    pub(super) fn take_spare(&mut self) -> Option<Ended> {
        if self.places() <= self.running {
            return None;
        }
        let oldest = self.lots.first_mut()?;
        oldest.places -= 1;
        let starts = oldest.starts.clone();
        if oldest.places == 0 {
            self.lots.remove(0);
        }
        Some(Ended {
            scripts: self.scripts,
            keys: self.keys.clone(),
            parameters: self.parameters.clone(),
            starts,
        })
    }

    /// Whether nothing is in flight, and no renewal can bring a place any more.
    pub(super) fn is_done(&self) -> bool {
        self.running == 0 && self.unanswered_renewals == 0 && self.places() == 0
    }

    /// Puts back a lot that was taken out to be renewed: as the reply says, or, without a reply, as
    /// it was.
    pub(super) fn put_back(&mut self, lot: Lot, replied: Option<Lot>) {
        self.unanswered_renewals = self.unanswered_renewals.saturating_sub(1);
        self.being_renewed = self.being_renewed.saturating_sub(lot.places);
        self.add(replied.unwrap_or(lot));
    }

    /// Takes out all lots, to renew them. What was lost is asked for with the last of them.
    pub(super) fn take_renewals(&mut self, now: Option<f64>, deadline: Duration) -> Vec<Renewal> {
        let lost = self.running.saturating_sub(self.places());
        let mut lots = std::mem::take(&mut self.lots);
        if lots.is_empty() && lost > 0 {
            lots.push(Lot {
                starts: vec![0.0; self.starts],
                places: 0,
            });
        }
        let last = lots.len();
        let mut renewals = Vec::with_capacity(last);
        for (number, lot) in (1..).zip(lots) {
            self.being_renewed += lot.places;
            self.unanswered_renewals += 1;
            let wanted = lot.places + if number == last { lost } else { 0 };
            let mut arguments = Vec::with_capacity(ARGUMENTS_LEN);
            let held_and_wanted = (lot.places, wanted);
            let starts = bytes_of(&lot.starts);
            push_renewal(
                &mut arguments,
                held_and_wanted,
                now,
                &self.parameters,
                &starts,
            );
            renewals.push(Renewal {
                bucket: self.keys[0].clone(),
                scripts: self.scripts,
                keys: self.keys.clone(),
                lot,
                arguments: arguments.into(),
                timeout: deadline.max(self.every.min(LATE_TIMEOUT)),
            });
        }
        renewals
    }
}

/// The lots as the reply says: the generation of each, and how many places it has now.
pub(super) fn replies(reply: &[u8], members: &[Member]) -> Vec<Lot> {
    let numbers: Vec<f64> = (reply.chunks_exact(8))
        .map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes")))
        .collect();
    let of_one = 2 * members.iter().filter(|member| member.in_flight).count();
    let lots = numbers.chunks_exact(of_one.max(1)).map(|numbers| {
        let mut moved = numbers.chunks_exact(2);
        let (mut starts, mut places) = (Vec::new(), u64::MAX);
        for member in members {
            let (start, renewed) = match member.in_flight {
                true => moved
                    .next()
                    .map_or((0.0, 0.0), |moved| (moved[0], moved[1])),
                false => (0.0, f64::MAX),
            };
            starts.extend(iter::repeat_n(start, member.admission().len()));
            places = places.min(renewed as u64);
        }
        Lot { starts, places }
    });
    lots.collect()
}
