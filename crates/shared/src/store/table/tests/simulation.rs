//! Many nodes on one store, with crashes, pauses, lost connections, late statements and late answers, each run decided by
//! its seed alone.
//!
//! The store is a model of the statements in `lease`, `life` and `append`, each carried out at one moment. A node acts by
//! the real table. Looked at after every step: an epoch has one owner, an acknowledged change stays in the log, nobody
//! writes behind a later owner, and no node shows or runs anything in a session that another one has.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use windlass_core::storage::Write;
use windlass_protocol::opencode::id::SessionId;

use super::super::{Batch, Held, Queued, Table};
use crate::store::node::valid_until;

/// Runs of the simulation, unless `FLEET_SEEDS` says more.
const SEEDS: u64 = 300;
const STEPS: usize = 250;
const N_MACHINES: usize = 3;
const N_SESSIONS: usize = 2;
const LEASE: u64 = 60;

type NodeId = u64;

/// A source of decisions (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

#[derive(Debug, Clone)]
enum Statement {
    Register {
        earlier: Option<NodeId>,
    },
    Renew,
    Take(usize),
    /// The number of the request, and its rows.
    Append(u64, Vec<(usize, i64, i64, String)>),
    GiveBack(usize, i64),
}

#[derive(Debug, Clone)]
enum Answer {
    Registered(HashMap<usize, i64>),
    Renewed(bool),
    Taken(usize, Option<(i64, i64)>),
    Appended(u64, HashSet<usize>),
    GivenBack,
}

/// The shared store.
#[derive(Default)]
struct Store {
    expires: HashMap<NodeId, u64>,
    leases: BTreeMap<usize, (Option<NodeId>, i64)>,
    /// Session, number, epoch, content.
    log: BTreeMap<(usize, i64), (i64, String)>,
    /// The owner of each epoch of a session.
    owners: HashMap<(usize, i64), NodeId>,
}

impl Store {
    fn run(&mut self, now: u64, node: NodeId, statement: Statement) -> Answer {
        match statement {
            Statement::Register { earlier } => {
                self.expires.insert(node, now + LEASE);
                let mut epochs = HashMap::new();
                for (session, (owner, epoch)) in &mut self.leases {
                    if earlier.is_some() && *owner == earlier {
                        (*owner, *epoch) = (Some(node), *epoch + 1);
                        assert!(self.owners.insert((*session, *epoch), node).is_none());
                        epochs.insert(*session, *epoch);
                    }
                }
                Answer::Registered(epochs)
            }
            Statement::Renew => {
                let is_alive = self.is_alive(now, node);
                if is_alive {
                    self.expires.insert(node, now + LEASE);
                }
                Answer::Renewed(is_alive)
            }
            Statement::Take(session) => {
                let lease = self.leases.entry(session).or_insert((None, 0));
                if let Some(owner) = lease.0
                    && self.expires.get(&owner).is_none_or(|it| *it <= now)
                {
                    // Buried: it can never renew again.
                    self.expires.insert(owner, 0);
                }
                let is_free = lease.0.is_none_or(|owner| owner == node || self.expires[&owner] == 0);
                if !is_free || self.expires.get(&node).is_none_or(|it| *it <= now) {
                    return Answer::Taken(session, None);
                }
                *lease = (Some(node), lease.1 + 1);
                assert!(self.owners.insert((session, lease.1), node).is_none(), "an epoch has one owner");
                let last =
                    self.log.range((session, 0)..(session, i64::MAX)).next_back().map_or(0, |it| it.0.1);
                Answer::Taken(session, Some((lease.1, last)))
            }
            Statement::Append(request, rows) => {
                let mut held = HashSet::new();
                for (session, epoch, seq, content) in rows {
                    if self.leases.get(&session) != Some(&(Some(node), epoch)) {
                        continue;
                    }
                    held.insert(session);
                    let newest = self.log.range((session, 0)..(session, i64::MAX)).next_back();
                    assert!(
                        newest.is_none_or(|(_, (last, _))| *last <= epoch),
                        "written behind a later owner"
                    );
                    self.log.entry((session, seq)).or_insert((epoch, content));
                }
                Answer::Appended(request, held)
            }
            Statement::GiveBack(session, epoch) => {
                if self.leases.get(&session) == Some(&(Some(node), epoch)) {
                    self.leases.insert(session, (None, epoch));
                }
                Answer::GivenBack
            }
        }
    }

    fn is_alive(&self, now: u64, node: NodeId) -> bool {
        self.expires.get(&node).is_some_and(|it| *it > now)
    }

    fn has(&self, session: usize, content: &str) -> bool {
        self.log.range((session, 0)..(session, i64::MAX)).any(|(_, (_, it))| it == content)
    }
}

/// A process, with everything that it forgets when it dies.
#[derive(Default)]
struct Machine {
    node: Option<NodeId>,
    table: Table,
    valid_until: u64,
    /// Waits for the answer of a statement of this kind; a connection that broke is forgotten.
    is_renewing: bool,
    is_paused: bool,
    in_flight: Vec<Batch>,
    /// The request that carries them; the answer to an earlier one is that of a connection that was given up.
    request: u64,
}

enum Message {
    ToStore { machine: usize, node: NodeId, asked: u64, statement: Statement },
    ToMachine { machine: usize, node: NodeId, asked: u64, answer: Answer },
}

struct World {
    random: Random,
    now: u64,
    store: Store,
    machines: Vec<Machine>,
    network: Vec<(u64, Message)>,
    next_node: NodeId,
    n_written: u64,
    n_requests: u64,
    /// Changes that somebody was shown once the log had them.
    shown: Vec<(usize, String)>,
}

fn id(session: usize) -> SessionId {
    SessionId::from_trusted(format!("ses_{session}"))
}

fn number(id: &SessionId) -> usize {
    id.as_str().trim_start_matches("ses_").parse().expect("a number")
}

fn content(batch: &Batch) -> String {
    format!("{:?}", batch.writes)
}

impl World {
    fn new(seed: u64) -> Self {
        let machines = (0..N_MACHINES).map(|_| Machine::default()).collect();
        Self {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            now: 1,
            store: Store::default(),
            machines,
            network: Vec::new(),
            next_node: 1,
            n_written: 0,
            n_requests: 0,
            shown: Vec::new(),
        }
    }

    fn send(&mut self, machine: usize, node: NodeId, statement: Statement) {
        let delay =
            if self.random.below(8) == 0 { self.random.below(LEASE * 2) } else { self.random.below(5) };
        let asked = self.now;
        self.network.push((self.now + delay, Message::ToStore { machine, node, asked, statement }));
    }

    fn step(&mut self) {
        self.now += self.random.below(6);
        self.deliver();
        let machine = self.random.below(N_MACHINES as u64) as usize;
        let session = self.random.below(N_SESSIONS as u64) as usize;
        match self.random.below(24) {
            0 => self.machines[machine] = Machine::default(),
            1 | 2 => self.machines[machine].is_paused ^= true,
            _ if self.machines[machine].is_paused => {}
            3..=6 => self.renew(machine),
            7..=9 => self.take(machine, session),
            10 => self.give_back(machine, session),
            11..=16 => self.write(machine, session),
            17..=21 => self.append(machine),
            _ => self.act(machine, session),
        }
        for (session, content) in &self.shown {
            assert!(self.store.has(*session, content), "an acknowledged change is lost");
        }
    }

    fn deliver(&mut self) {
        loop {
            let now = self.now;
            let due = |(at, message): &(u64, Message)| {
                *at <= now
                    && match message {
                        Message::ToStore { .. } => true,
                        // A process that is stopped reads its answers when it goes on.
                        Message::ToMachine { machine, .. } => !self.machines[*machine].is_paused,
                    }
            };
            let Some(place) = self.network.iter().position(due) else { return };
            let (_, message) = self.network.swap_remove(place);
            match message {
                Message::ToStore { machine, node, asked, statement } => {
                    let answer = self.store.run(self.now, node, statement);
                    // The connection may break before the answer.
                    if self.random.below(10) > 0 {
                        let at = self.now + self.random.below(5);
                        self.network.push((at, Message::ToMachine { machine, node, asked, answer }));
                    }
                }
                Message::ToMachine { machine, node, asked, answer } => {
                    self.answered(machine, node, asked, answer);
                }
            }
        }
    }

    fn answered(&mut self, machine: usize, node: NodeId, asked: u64, answer: Answer) {
        let limit = |asked: u64| {
            let until = valid_until(Duration::from_secs(asked), Duration::from_secs(LEASE));
            until.as_secs()
        };
        let Machine { node: own, table, valid_until, is_renewing, in_flight, request, .. } =
            &mut self.machines[machine];
        match answer {
            Answer::Registered(epochs) => {
                // The row of a process that died since waits for its end.
                if *is_renewing {
                    (*own, *valid_until, *is_renewing) = (Some(node), limit(asked), false);
                    let epochs =
                        epochs.iter().map(|(session, epoch)| (id(*session).to_string(), *epoch)).collect();
                    for lost in table.renew_epochs(&epochs) {
                        table.lose(&lost, "another");
                        in_flight.retain(|batch| batch.session != lost);
                    }
                }
            }
            _ if *own != Some(node) => {}
            Answer::Renewed(true) => (*valid_until, *is_renewing) = ((*valid_until).max(limit(asked)), false),
            Answer::Renewed(false) => {
                let earlier = *own;
                (*own, *valid_until) = (None, 0);
                self.register(machine, earlier);
            }
            Answer::Taken(session, Some((epoch, last))) => {
                // An answer that comes late is of an epoch that may be over; the next append tells.
                if !table.holds(&id(session)) && self.store.leases[&session].1 == epoch {
                    table.forget(&id(session));
                    table.hold(&id(session), Held::new(epoch, last, String::new()));
                }
            }
            Answer::Taken(_, None) | Answer::GivenBack => {}
            Answer::Appended(answered, _) if answered != *request => {}
            Answer::Appended(_, held) => {
                for batch in std::mem::take(in_flight) {
                    let session = number(&batch.session);
                    if held.contains(&session) {
                        self.shown.push((session, content(&batch)));
                        table.acknowledge(&batch, 1);
                    } else {
                        table.lose(&batch.session, "another");
                    }
                }
            }
        }
    }

    fn register(&mut self, machine: usize, earlier: Option<NodeId>) {
        let node = self.next_node;
        self.next_node += 1;
        self.machines[machine].is_renewing = true;
        self.send(machine, node, Statement::Register { earlier });
    }

    fn renew(&mut self, machine: usize) {
        match self.machines[machine].node {
            Some(node) => self.send(machine, node, Statement::Renew),
            // It asks again, since the answer may have been lost; the earlier row stays with nobody behind it.
            None => self.register(machine, None),
        }
    }

    fn take(&mut self, machine: usize, session: usize) {
        let Machine { node, table, .. } = &self.machines[machine];
        if let Some(node) = node.filter(|_| !table.holds(&id(session))) {
            self.send(machine, node, Statement::Take(session));
        }
    }

    fn give_back(&mut self, machine: usize, session: usize) {
        let Machine { node, table, .. } = &mut self.machines[machine];
        let (Some(node), Some(epoch)) = (*node, table.epoch(&id(session))) else { return };
        if table.holds(&id(session)) && table.is_settled(&id(session)) {
            table.forget(&id(session));
            self.send(machine, node, Statement::GiveBack(session, epoch));
        }
    }

    fn write(&mut self, machine: usize, session: usize) {
        self.n_written += 1;
        let title = self.n_written.to_string();
        let table = &mut self.machines[machine].table;
        let write = Write::Rename { session_id: id(session), title };
        let _queued: Queued = table.queue(&id(session), vec![write], None);
    }

    /// Appends what waits; what was sent before without an answer is sent again, as after a broken connection.
    fn append(&mut self, machine: usize) {
        let Machine { node, table, in_flight, request, .. } = &mut self.machines[machine];
        let Some(node) = *node else { return };
        if in_flight.is_empty() {
            *in_flight = table.take_batches();
        }
        let row = |batch: &Batch| {
            let epoch = table.epoch_of(batch)?;
            Some((number(&batch.session), epoch, batch.seq, content(batch)))
        };
        let rows: Vec<_> = in_flight.iter().filter_map(row).collect();
        in_flight.retain(|batch| table.epoch_of(batch).is_some());
        if !rows.is_empty() {
            self.n_requests += 1;
            *request = self.n_requests;
            self.send(machine, node, Statement::Append(self.n_requests, rows));
        }
    }

    /// Shows something at once or runs a tool, as a node does while its lease holds.
    fn act(&mut self, machine: usize, session: usize) {
        let Machine { node, table, valid_until, .. } = &self.machines[machine];
        if table.holds(&id(session)) && self.now < *valid_until {
            let lease = self.store.leases.get(&session);
            assert_eq!(lease.and_then(|it| it.0), *node, "two nodes work in a session");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the number of runs is the caller's")]
fn no_order_of_crashes_and_delays_gives_a_session_two_owners_or_loses_a_change() {
    let seeds = std::env::var("FLEET_SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(SEEDS);
    let (mut n_shown, mut n_epochs) = (0, 0);
    for seed in 0..seeds {
        let ran = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            (world.shown.len(), world.store.owners.len())
        });
        let (shown, epochs) = ran.unwrap_or_else(|_| panic!("seed {seed}"));
        n_shown += shown;
        n_epochs += epochs;
    }
    println!("{seeds} seeds, {n_shown} acknowledged changes, {n_epochs} epochs");
    assert!(n_shown as u64 > seeds && n_epochs as u64 > seeds, "too little happens");
}
