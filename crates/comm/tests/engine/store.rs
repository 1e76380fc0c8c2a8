//! Where ranks of a test leave their addresses.

use cairn_comm::engine::{LinkError, LinkErrorKind, Store};
use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

fn timeout(key: &str) -> LinkError {
    LinkError::new(LinkErrorKind::Timeout, None, format!("nobody wrote the key {key}"))
}

/// Among threads.
#[derive(Default)]
pub struct MemoryStore {
    values: Mutex<HashMap<String, Vec<u8>>>,
    changed: Condvar,
}

impl Store for MemoryStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), LinkError> {
        self.values.lock().unwrap().insert(key.into(), value.into());
        self.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, time: Duration) -> Result<Vec<u8>, LinkError> {
        let values = self.values.lock().unwrap();
        let wait = |values: &mut HashMap<_, _>| !values.contains_key(key);
        let (values, _) = self.changed.wait_timeout_while(values, time, wait).unwrap();
        values.get(key).cloned().ok_or_else(|| timeout(key))
    }
}

/// Among processes: a file for each key.
pub struct FolderStore(pub PathBuf);

impl Store for FolderStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), LinkError> {
        let (new, path) = (self.0.join(format!("{key}.{}", std::process::id())), self.0.join(key));
        let written = fs::write(&new, value).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| LinkError::new(LinkErrorKind::Other, None, error.to_string()))
    }

    fn get(&self, key: &str, time: Duration) -> Result<Vec<u8>, LinkError> {
        let end = Instant::now() + time;
        loop {
            match fs::read(self.0.join(key)) {
                Ok(value) => return Ok(value),
                Err(_) if Instant::now() >= end => return Err(timeout(key)),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// A part of another store, for one of several meshes.
pub struct Prefixed {
    pub store: Arc<dyn Store>,
    pub prefix: u32,
}

impl Store for Prefixed {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), LinkError> {
        self.store.set(&format!("{}-{key}", self.prefix), value)
    }

    fn get(&self, key: &str, time: Duration) -> Result<Vec<u8>, LinkError> {
        self.store.get(&format!("{}-{key}", self.prefix), time)
    }
}
