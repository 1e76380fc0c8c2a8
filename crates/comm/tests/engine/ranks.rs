//! Runs a case with some ranks, as threads of this process or as children of it.

use crate::{
    cases::{self, Case},
    store::{FolderStore, MemoryStore, Prefixed},
};
use cairn_comm::engine::{Engine, LinkError, Mesh, MeshSpec, Store, Transport, gloo::Gloo};
use std::{
    env, fs,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::Duration,
};

/// Says which rank of which case a child is: case, wire, rank, size, folder, deep.
const CHILD: &str = "CAIRN_ENGINE_RANK";

/// A limit for what should take moments.
pub const LONG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Shared,
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Threads,
    Processes,
}

/// What a rank of a case gets.
pub struct Rank<'a> {
    pub engine: &'a Gloo,
    pub wire: Wire,
    pub rank: u32,
    pub size: u32,
    pub is_deep: bool,
    store: Arc<dyn Store>,
}

impl Rank<'_> {
    pub fn connect(&self) -> Arc<dyn Mesh> {
        self.try_connect(&self.store, LONG).expect("the ranks connect")
    }

    pub fn try_connect(
        &self,
        store: &Arc<dyn Store>,
        timeout: Duration,
    ) -> Result<Arc<dyn Mesh>, LinkError> {
        let transport = match self.wire {
            Wire::Shared => Transport::Shared,
            Wire::Tcp => Transport::Tcp { address: IpAddr::V4(Ipv4Addr::LOCALHOST) },
        };
        let spec = MeshSpec {
            rank: self.rank,
            size: self.size,
            name: "test".into(),
            transport,
            buffer_bytes: 8 << 20,
            timeout,
        };
        self.engine.connect(&spec, Arc::clone(store))
    }

    /// Where the ranks of one of several meshes of this case meet.
    pub fn store(&self, prefix: u32) -> Arc<dyn Store> {
        Arc::new(Prefixed { store: Arc::clone(&self.store), prefix })
    }

    /// The other ranks.
    pub fn peers(&self) -> impl Iterator<Item = u32> + use<> {
        let rank = self.rank;
        (0..self.size).filter(move |peer| *peer != rank)
    }
}

/// A case, and how it runs.
pub struct Ranks {
    pub case: &'static Case,
    pub wire: Wire,
    pub run: Run,
    pub is_deep: bool,
}

impl Ranks {
    pub fn run(&self, engine: &Gloo) -> Result<(), String> {
        match self.run {
            Run::Threads => self.run_threads(engine),
            Run::Processes => self.run_processes(),
        }
    }

    fn run_threads(&self, engine: &Gloo) -> Result<(), String> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let size = self.case.ranks;
        std::thread::scope(|scope| {
            let start = |rank| {
                let store = Arc::clone(&store);
                let (wire, is_deep) = (self.wire, self.is_deep);
                scope.spawn(move || {
                    (self.case.body)(&Rank { engine, wire, rank, size, is_deep, store });
                })
            };
            let threads: Vec<_> = (0..size).map(start).collect();
            let failed = threads.into_iter().map(|thread| thread.join()).filter(Result::is_err);
            match failed.count() {
                0 => Ok(()),
                count => Err(format!("{count} ranks failed")),
            }
        })
    }

    fn run_processes(&self) -> Result<(), String> {
        let folder = env::temp_dir().join(format!(
            "cairn-engine-{}-{}-{:?}",
            std::process::id(),
            self.case.name,
            self.wire
        ));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let start = |rank: u32| {
            let wire = if self.wire == Wire::Shared { "shared" } else { "tcp" };
            let (name, size, deep) = (self.case.name, self.case.ranks, self.is_deep);
            let text = format!("{name} {wire} {rank} {size} {deep} {}", folder.display());
            let mut command = Command::new(env::current_exe().expect("this program has a path"));
            command.env(CHILD, text).spawn().expect("a child starts")
        };
        let children: Vec<_> = (0..self.case.ranks).map(start).collect();
        let mut failures = Vec::new();
        for (rank, mut child) in (0..).zip(children) {
            let status = child.wait().expect("a child ends");
            if !status.success() && self.case.dies != Some(rank) {
                failures.push(format!("rank {rank}: {status}"));
            }
        }
        let _ = fs::remove_dir_all(folder);
        if failures.is_empty() { Ok(()) } else { Err(failures.join(", ")) }
    }
}

/// One rank in a process of its own.
pub struct Child {
    words: Vec<String>,
}

impl Child {
    pub fn from_env() -> Option<Child> {
        let text = env::var(CHILD).ok()?;
        Some(Child { words: text.splitn(6, ' ').map(String::from).collect() })
    }

    pub fn run(&self, engine: &Gloo) {
        let case = cases::ALL.iter().find(|case| case.name == self.words[0]).expect("a case");
        let rank = Rank {
            engine,
            wire: if self.words[1] == "shared" { Wire::Shared } else { Wire::Tcp },
            rank: self.words[2].parse().expect("a rank"),
            size: self.words[3].parse().expect("a size"),
            is_deep: self.words[4] == "true",
            store: Arc::new(FolderStore(PathBuf::from(&self.words[5]))),
        };
        (case.body)(&rank);
    }
}
