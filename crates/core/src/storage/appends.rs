//! Text that is appended to unfinished parts, in a file of this process's own: one system call instead of a
//! transaction in another thread.
//!
//! Each process that writes the store locks a slot, a small file beside the database. A record says where in its part
//! the text begins, so that one which the part has already is passed over. A reader of a history adds the records of all
//! slots; a process that takes a slot first moves the records of processes that have ended into the database.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Mutex,
};

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_base::lock::lock;
use windlass_protocol::opencode::{
    id::{PartId, SessionId},
    part::{PRINTED, Part, PartKind, PartTime, ToolState},
};

use super::{StorageError, Write, apply};

/// Bytes of a slot. A full one is moved into the database.
const CAPACITY: usize = 256 * 1024;
/// Processes that may have a slot at once; others append in transactions.
const MAX_SLOTS: usize = 64;
/// Bytes before a record: its length and its checksum.
const HEADER: usize = 8;
/// The length of the record behind the last one; no real record has it.
const END: [u8; 4] = [0; 4];

/// Text that was appended to a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Append {
    pub session_id: SessionId,
    pub part_id: PartId,
    /// Bytes that the part held before.
    pub offset: usize,
    pub text: String,
}

/// The slot of this process.
pub struct Slot(Mutex<State>);

struct State {
    file: File,
    n_bytes: usize,
    /// The text appended to each part since its row was written, or since the last move.
    open: HashMap<PartId, Append>,
    /// Set while the records are on their way into the database.
    is_moving: bool,
}

/// A slot that is locked, and those of ended processes, with records that are about to be in the database.
pub struct Taken {
    own: File,
    ended: Vec<File>,
}

impl Taken {
    /// Takes a free slot, and moves the records of processes that have ended into the database. Returns none if no slot
    /// can be had.
    ///
    /// The records stay in their files as well: [`Taken::begin`] removes them once the transaction is committed.
    pub fn new(connection: &Connection) -> Option<Self> {
        let directory = directory(connection)?;
        let locked = DirBuilder::new().recursive(true).mode(0o700).create(&directory).and_then(|()| {
            let mut locked = Vec::new();
            for index in 0..MAX_SLOTS {
                let path = directory.join(index.to_string());
                if !locked.is_empty() && !path.exists() {
                    break;
                }
                let file = open(&path)?;
                match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => continue,
                    Err(TryLockError::Error(error)) => return Err(error),
                }
                fill(&file)?;
                move_all(connection, records(&file)?).map_err(io::Error::other)?;
                locked.push(file);
            }
            Ok(locked)
        });
        let mut locked = locked.unwrap_or_else(|error| {
            tracing::warn!(%error, "text is appended in transactions, which costs more");
            Vec::new()
        });
        let ended = locked.split_off(1.min(locked.len()));
        Some(Self { own: locked.pop()?, ended })
    }

    /// Empties the files, and returns the slot; none if its file cannot be written.
    pub fn begin(self) -> Option<Slot> {
        let Self { own: file, ended } = self;
        for file in ended {
            // Records that stay are passed over by readers: their parts hold them already.
            let _ = file.write_all_at(&END, 0);
        }
        file.write_all_at(&END, 0).ok()?;
        Some(Slot(Mutex::new(State { file, n_bytes: 0, open: HashMap::new(), is_moving: false })))
    }
}

impl Slot {
    /// Appends the records with one system call. Returns false if there is no room: they have to be moved first.
    pub fn add(&self, appends: &[&Append]) -> bool {
        let mut state = lock(&self.0);
        let mut bytes = Vec::with_capacity(HEADER + 256);
        let is_encoded = appends.iter().all(|append| encode(append, &mut bytes).is_ok());
        let n_bytes = bytes.len();
        bytes.extend(END);
        let has_room = !state.is_moving && state.n_bytes + bytes.len() <= CAPACITY;
        let offset = state.n_bytes as u64;
        if !is_encoded || !has_room || state.file.write_all_at(&bytes, offset).is_err() {
            return false;
        }
        state.n_bytes += n_bytes;
        for append in appends {
            match state.open.get_mut(&append.part_id) {
                Some(open) => open.text.push_str(&append.text),
                None => drop(state.open.insert(append.part_id.clone(), (*append).clone())),
            }
        }
        true
    }

    /// Returns the text that the slot holds of these parts.
    pub fn of_parts(&self, parts: &[PartId]) -> Vec<Append> {
        let state = lock(&self.0);
        parts.iter().filter_map(|part| state.open.get(part).cloned()).collect()
    }

    /// Forgets the text of parts that the database holds now.
    pub fn finish(&self, parts: &[PartId]) {
        let mut state = lock(&self.0);
        for part in parts {
            state.open.remove(part);
        }
        if state.open.is_empty() && !state.is_moving {
            state.empty();
        }
    }

    /// Returns the records to be moved to the database; none while another move runs. [`Slot::end_move`] has to follow.
    pub fn begin_move(&self) -> Option<Vec<Append>> {
        let mut state = lock(&self.0);
        if state.is_moving {
            return None;
        }
        state.is_moving = true;
        Some(state.open.values().cloned().collect())
    }

    /// Empties the slot if its records are in the database.
    pub fn end_move(&self, is_moved: bool) {
        let mut state = lock(&self.0);
        state.is_moving = false;
        if is_moved {
            state.open.clear();
            state.empty();
        }
    }
}

impl State {
    fn empty(&mut self) {
        // Records that stay are passed over by readers: their parts hold them already.
        if self.n_bytes > 0 && self.file.write_all_at(&END, 0).is_ok() {
            self.n_bytes = 0;
        }
    }
}

/// The directory of the slots; none if the database's path is no text.
fn directory(connection: &Connection) -> Option<PathBuf> {
    let path = connection.path().filter(|path| !path.is_empty())?;
    Some(Path::new(path).with_extension("db-appends"))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

/// Gives a slot all its blocks: later writes change no metadata and find room.
fn fill(file: &File) -> io::Result<()> {
    if file.metadata()?.len() < CAPACITY as u64 { file.write_all_at(&vec![0; CAPACITY], 0) } else { Ok(()) }
}

fn encode(record: &Append, bytes: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let start = bytes.len();
    bytes.extend([0; HEADER]);
    serde_json::to_writer(&mut *bytes, record)?;
    let payload = bytes.split_off(start + HEADER);
    // A longer record does not fit into a slot anyway.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    bytes.truncate(start);
    bytes.extend(length.to_le_bytes());
    bytes.extend(crc32fast::hash(&payload).to_le_bytes());
    bytes.extend(payload);
    Ok(())
}

/// Reads the records of a slot up to its end, or up to one that was cut off by the end of its process.
fn records(mut file: &File) -> io::Result<Vec<Append>> {
    let mut first = END;
    file.rewind()?;
    // Most are empty.
    if file.read_exact(&mut first).is_err() || first == END {
        return Ok(Vec::new());
    }
    let mut bytes = first.to_vec();
    file.read_to_end(&mut bytes)?;
    let (mut records, mut rest) = (Vec::new(), bytes.as_slice());
    while let Some((record, behind)) = decode(rest) {
        records.push(record);
        rest = behind;
    }
    Ok(records)
}

fn decode(bytes: &[u8]) -> Option<(Append, &[u8])> {
    let (length, bytes) = bytes.split_first_chunk()?;
    let (checksum, bytes) = bytes.split_first_chunk()?;
    let (payload, rest) = bytes.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let is_whole = !payload.is_empty() && crc32fast::hash(payload) == u32::from_le_bytes(*checksum);
    Some((serde_json::from_slice(payload).ok().filter(|_| is_whole)?, rest))
}

/// Reads the text that all processes have appended to the parts of a session.
///
/// To be read before the database: a record that is moved in between is then seen twice and passed over.
pub fn of_session(connection: &Connection, id: &SessionId) -> Vec<Append> {
    let Some(directory) = directory(connection) else { return Vec::new() };
    let unreadable = |path: &Path, error: io::Error| {
        if error.kind() != io::ErrorKind::NotFound {
            let path = path.display().to_string();
            tracing::warn!(path, %error, "text that was appended lately cannot be read");
        }
    };
    let slots = fs::read_dir(&directory).map_err(|error| unreadable(&directory, error));
    let files = slots.into_iter().flatten().flatten().map(|slot| slot.path());
    let read = |path: PathBuf| {
        let records = File::open(&path).and_then(|file| records(&file));
        records.map_err(|error| unreadable(&path, error)).unwrap_or_default()
    };
    files.flat_map(read).filter(|record| record.session_id == *id).collect()
}

/// Counts the records of processes that have ended, and their bytes. Changes nothing.
pub fn left_behind(connection: &Connection) -> (usize, usize) {
    let slots = directory(connection).and_then(|directory| fs::read_dir(directory).ok());
    let files = slots.into_iter().flatten().flatten().filter_map(|slot| File::open(slot.path()).ok());
    let ended = files.filter(|file| file.try_lock_shared().is_ok());
    let records: Vec<Append> = ended.flat_map(|file| records(&file).unwrap_or_default()).collect();
    (records.len(), records.iter().map(|record| record.text.len()).sum())
}

/// Locks the slots of a store, so that no process writes it meanwhile; `None` if one does.
pub fn lock_all(store: &Path) -> io::Result<Option<Vec<File>>> {
    let mut locked = Vec::new();
    let entries = match fs::read_dir(store.with_extension("db-appends")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(locked)),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let file = open(&entry?.path())?;
        match file.try_lock() {
            Ok(()) => locked.push(file),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(Some(locked))
}

/// Appends a record to its part, unless the part has it already or is finished.
pub fn extend(part: &mut Part, record: &Append) -> bool {
    let is_next = length(part) == Some(record.offset);
    if is_next {
        append(part, &record.text);
    }
    is_next
}

/// Appends text that a part does not have yet.
pub fn append(part: &mut Part, text: &str) {
    if let Some(whole) = part.kind.text_mut() {
        whole.push_str(text);
    } else if let PartKind::Tool(tool) = &mut part.kind
        && let ToolState::Running { metadata: Some(metadata), .. } = &mut tool.state
    {
        if let Some(Value::String(output)) = metadata.get_mut("output") {
            output.push_str(text);
        }
        if let Some(printed) = metadata.get_mut(PRINTED) {
            *printed = (printed.as_u64().unwrap_or(0) + text.len() as u64).into();
        }
    }
}

/// Returns the bytes of the text, or of the output, of a part that still grows.
pub fn length(part: &Part) -> Option<usize> {
    let has_ended = |time: &PartTime| time.end.is_some();
    match &part.kind {
        PartKind::Text(text) if !text.time.as_ref().is_some_and(has_ended) => Some(text.text.len()),
        PartKind::Reasoning(reasoning) if !has_ended(&reasoning.time) => Some(reasoning.text.len()),
        PartKind::Tool(tool) => match &tool.state {
            ToolState::Running { metadata: Some(metadata), .. } => {
                let printed = metadata.get(PRINTED).and_then(Value::as_u64).unwrap_or(0);
                usize::try_from(printed).ok()
            }
            _ended => None,
        },
        _other => None,
    }
}

/// Moves records into the database; those of parts that are gone, finished or have them already are dropped.
pub fn move_all(connection: &Connection, records: Vec<Append>) -> Result<(), StorageError> {
    let mut parts: HashMap<PartId, Option<Part>> = HashMap::new();
    for record in records {
        let part = match parts.entry(record.part_id.clone()) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(stored_part(connection, &record.part_id)?)
            }
        };
        if part.as_mut().is_some_and(|part| extend(part, &record)) {
            apply(connection, &Write::Append(record))?;
        }
    }
    Ok(())
}

/// Appends the part of a record that its part does not have yet, in the database.
pub fn catch_up(connection: &Connection, mut record: Append) -> Result<(), StorageError> {
    let Some(part) = stored_part(connection, &record.part_id)? else { return Ok(()) };
    let known = length(&part).and_then(|length| length.checked_sub(record.offset));
    let Some(rest) = known.and_then(|known| record.text.get(known..)).filter(|rest| !rest.is_empty()) else {
        return Ok(());
    };
    record.text = rest.to_owned();
    apply(connection, &Write::Append(record))
}

/// Reads a part with the text that was appended to it in the database.
fn stored_part(connection: &Connection, id: &PartId) -> Result<Option<Part>, StorageError> {
    let mut statement = connection.prepare_cached("SELECT data FROM part WHERE id = ?1")?;
    let data: Option<String> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    let Some(mut part) = data.map(|data| serde_json::from_str::<Part>(&data)).transpose()? else {
        return Ok(None);
    };
    let mut statement =
        connection.prepare_cached("SELECT text FROM part_text WHERE part_id = ?1 ORDER BY seq")?;
    let mut rows = statement.query([id.as_str()])?;
    while let Some(row) = rows.next()? {
        append(&mut part, row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
    }
    Ok(Some(part))
}

#[cfg(test)]
mod tests;
