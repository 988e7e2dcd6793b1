//! An ordered queue with pushes that never wait; producers of bulk wait for room before they produce more.
//!
//! A slow reader thereby slows the session that floods it, while answers and cancellation still pass: the
//! queue's size is bounded by the high-water mark plus the amount that each producer makes between two waits.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::lock::lock;

#[derive(Debug)]
struct Items<T> {
    list: VecDeque<T>,
    /// The weight of all items.
    weight: usize,
}

/// A queue with one reader and many writers; see the module's comment.
#[derive(Debug)]
pub struct Queue<T> {
    items: Mutex<Items<T>>,
    arrived: Notify,
    drained: Notify,
    high_water: usize,
    closed: AtomicBool,
}

impl<T> Queue<T> {
    /// Makes a queue that has room while the weight of its items is below `high_water`.
    pub fn new(high_water: usize) -> Self {
        Self {
            items: Mutex::new(Items { list: VecDeque::new(), weight: 0 }),
            arrived: Notify::new(),
            drained: Notify::new(),
            high_water,
            closed: AtomicBool::new(false),
        }
    }

    /// Appends an item with its weight, in the unit that the queue counts. Drops the item if the queue is
    /// closed.
    pub fn push(&self, item: T, weight: usize) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        {
            let mut items = self.lock();
            items.list.push_back(item);
            items.weight += weight;
        }
        self.arrived.notify_one();
    }

    /// Waits for at least one item and moves all of them to `batch`. Returns false once the queue is closed and
    /// empty.
    pub async fn next_batch(&self, batch: &mut VecDeque<T>) -> bool {
        loop {
            let arrived = self.arrived.notified();
            if self.take(batch) {
                return true;
            }
            if self.closed.load(Ordering::Acquire) {
                return false;
            }
            arrived.await;
        }
    }

    /// Moves all items to `batch` without waiting. Returns false if there are none.
    pub fn take(&self, batch: &mut VecDeque<T>) -> bool {
        let mut items = self.lock();
        if items.list.is_empty() {
            return false;
        }
        batch.append(&mut items.list);
        items.weight = 0;
        drop(items);
        self.drained.notify_waiters();
        true
    }

    /// Waits until the queue weighs less than its high-water mark, or is closed.
    pub async fn room(&self) {
        self.below(self.high_water).await;
    }

    /// Waits until the queue weighs less than `limit`, or is closed.
    pub async fn below(&self, limit: usize) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Registers before the check, so that a drain in between is not missed.
            drained.as_mut().enable();
            if self.lock().weight < limit || self.closed.load(Ordering::Acquire) {
                return;
            }
            drained.await;
        }
    }

    /// Returns true if nothing waits to be read.
    pub fn is_empty(&self) -> bool {
        self.lock().list.is_empty()
    }

    /// Returns the weight of the items that wait to be read.
    pub fn weight(&self) -> usize {
        self.lock().weight
    }

    /// Returns how often the high-water mark fits into the items that wait to be read.
    pub fn n_behind(&self) -> usize {
        self.lock().weight / self.high_water.max(1)
    }

    /// Closes the queue: its items can still be read, further pushes are dropped, and all waits end.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.arrived.notify_one();
        self.drained.notify_waiters();
    }

    /// Returns true after [`Queue::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Items<T>> {
        lock(&self.items)
    }
}

#[cfg(test)]
mod tests;
