//! Items leave the queue in order, and every waiter is woken by the event it waits for.

use std::{collections::VecDeque, pin::pin, task::Poll};

use futures_util::poll;

use super::Queue;

fn full(n_items: u32, high_water: usize) -> Queue<u32> {
    let queue = Queue::new(high_water);
    (1..=n_items).for_each(|item| queue.push(item, 1));
    queue
}

#[tokio::test]
async fn a_batch_appends_everything_in_order() {
    let queue = full(3, 1);
    let mut batch = VecDeque::from([0]);
    assert!(queue.next_batch(&mut batch).await);
    assert_eq!(batch, [0, 1, 2, 3]);
    assert!(!queue.take(&mut batch));
}

#[tokio::test]
async fn a_push_wakes_the_reader() {
    let queue = Queue::new(1);
    let mut batch = VecDeque::new();
    {
        let mut read = pin!(queue.next_batch(&mut batch));
        assert_eq!(poll!(&mut read), Poll::Pending);
        queue.push(7, 1);
        assert_eq!(poll!(&mut read), Poll::Ready(true));
    }
    assert_eq!(batch, [7]);
}

#[tokio::test]
async fn a_closed_queue_is_read_to_its_end_and_takes_nothing_new() {
    let queue = full(1, 1);
    queue.close();
    queue.push(2, 1);
    assert!(queue.is_closed());
    let mut batch = VecDeque::new();
    assert!(queue.next_batch(&mut batch).await);
    assert!(!queue.next_batch(&mut batch).await);
    assert_eq!(batch, [1]);
}

#[tokio::test]
async fn closing_wakes_the_reader() {
    let queue = Queue::<u32>::new(1);
    let mut batch = VecDeque::new();
    let mut read = pin!(queue.next_batch(&mut batch));
    assert_eq!(poll!(&mut read), Poll::Pending);
    queue.close();
    assert_eq!(poll!(&mut read), Poll::Ready(false));
}

#[tokio::test]
async fn there_is_room_only_under_the_high_water_mark() {
    let queue = full(1, 2);
    assert_eq!(poll!(pin!(queue.room())), Poll::Ready(()));
    queue.push(2, 1);
    assert_eq!(poll!(pin!(queue.room())), Poll::Pending);
    assert_eq!(poll!(pin!(queue.below(3))), Poll::Ready(()));
}

#[tokio::test]
async fn draining_wakes_everyone_who_waits_for_room() {
    let queue = full(2, 2);
    let (mut first, mut second) = (pin!(queue.room()), pin!(queue.below(1)));
    assert_eq!((poll!(&mut first), poll!(&mut second)), (Poll::Pending, Poll::Pending));
    assert!(queue.take(&mut VecDeque::new()));
    assert_eq!((poll!(&mut first), poll!(&mut second)), (Poll::Ready(()), Poll::Ready(())));
}

#[tokio::test]
async fn a_closed_queue_always_has_room() {
    let queue = full(2, 2);
    let mut room = pin!(queue.room());
    assert_eq!(poll!(&mut room), Poll::Pending);
    queue.close();
    assert_eq!(poll!(&mut room), Poll::Ready(()));
    assert_eq!(poll!(pin!(queue.below(0))), Poll::Ready(()));
}
