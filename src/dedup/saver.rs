//! Saves in the background, while lines are judged.
//!
//! ```text
//!   idle ── begin ──▶ copying ── copied, and the output is written ──▶ completing ── done ──▶ idle
//! ```
//!
//! The filter is copied while ids are admitted, so a copy may hold ids that came after its save began. Before it counts, their
//! messages must have been written: [`tend`](Saver::tend) and [`settle`](Saver::settle) are called by who writes, when
//! everything is written.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use crate::dedup::memory::Memory;
use crate::dedup::state::{Manifest, Save, StateDirectory, StateError};

/// The side that begins saves.
pub(super) struct Saver {
    orders: Sender<Order>,
    news: Receiver<News>,
    phase: Phase,
    /// Generations as they were last saved: ids, and which save.
    saved: HashMap<u64, (u64, u64)>,
    sequence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Idle,
    Copying,
    /// What will have been saved.
    Completing,
}

enum Order {
    Copy(Box<Save>),
    Complete,
}

enum News {
    Copied,
    Done(Box<Result<Manifest, StateError>>),
}

impl Saver {
    /// Starts the thread that writes to `directory`. `restored`: what the memory was read from. `wake`: gets a byte whenever
    /// there is something to tend to.
    pub(super) fn start(
        directory: StateDirectory,
        restored: Option<&Manifest>,
        wake: UnixStream,
    ) -> Self {
        let (orders, taken) = channel();
        let (told, news) = channel();
        thread::spawn(move || work(&directory, &taken, &told, &wake));
        let mut saver = Self {
            orders,
            news,
            phase: Phase::Idle,
            saved: HashMap::new(),
            sequence: restored.map_or(0, |manifest| manifest.sequence),
        };
        if let Some(manifest) = restored {
            saver.note(manifest);
        }
        saver
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Begins a save of `memory`. Everything it admitted must have been written to the output.
    pub(super) fn begin(
        &mut self,
        contract: &str,
        memory: &Memory,
        fill_in: impl FnOnce(&mut Manifest) -> Option<Vec<u8>>,
    ) {
        self.sequence += 1;
        let mut manifest = Manifest::new(contract, self.sequence, memory);
        let digests = fill_in(&mut manifest);
        manifest.digests = digests.as_ref().map(|_| self.sequence);
        let mut changed = Vec::new();
        for (generation, to_save) in memory.generations().zip(&mut manifest.generations) {
            match self.saved.get(&generation.slice) {
                Some(&(ids, sequence)) if ids == generation.ids => to_save.sequence = sequence,
                _ => changed.push(generation.clone()),
            }
        }
        let save = Save {
            manifest,
            changed,
            digests,
        };
        self.order(Order::Copy(Box::new(save)));
        self.phase = Phase::Copying;
    }

    /// Goes on with a save, without waiting. Returns how it ended, when it just did.
    pub(super) fn tend(&mut self) -> Option<Result<(), StateError>> {
        match self.news.try_recv() {
            Ok(news) => self.hear(news),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Waits until the save that is under way, if one is, has ended.
    pub(super) fn settle(&mut self) -> Result<(), StateError> {
        while !self.is_idle() {
            let news = self.news.recv().expect("the thread answers every order");
            if let Some(ended) = self.hear(news) {
                return ended;
            }
        }
        Ok(())
    }

    fn hear(&mut self, news: News) -> Option<Result<(), StateError>> {
        match news {
            News::Copied => {
                self.phase = Phase::Completing;
                self.order(Order::Complete);
                None
            }
            News::Done(done) => {
                self.phase = Phase::Idle;
                Some(done.map(|manifest| self.note(&manifest)))
            }
        }
    }

    fn note(&mut self, manifest: &Manifest) {
        let generations = manifest.generations.iter();
        self.saved = generations
            .map(|saved| (saved.slice, (saved.ids, saved.sequence)))
            .collect();
    }

    fn order(&self, order: Order) {
        self.orders
            .send(order)
            .expect("the thread lives as long as this end");
    }
}

fn work(
    directory: &StateDirectory,
    orders: &Receiver<Order>,
    news: &Sender<News>,
    mut wake: &UnixStream,
) {
    let mut tell = |what| {
        // Whoever has gone needs no news; a full pipe is awake already.
        let _ = news.send(what);
        let _ = wake.write(&[0]);
    };
    while let Ok(order) = orders.recv() {
        let Order::Copy(save) = order else { continue };
        if let Err(error) = directory.copy(&save) {
            tell(News::Done(Box::new(Err(error))));
            continue;
        }
        let Save {
            manifest, changed, ..
        } = *save;
        drop(changed); // the filters' memory is no longer held from here
        tell(News::Copied);
        let Ok(Order::Complete) = orders.recv() else {
            return;
        };
        let completed = directory.complete(&manifest).map(|()| manifest);
        tell(News::Done(Box::new(completed)));
    }
}
