//! An engine on a small runtime, a builder of graphs, and a pool that counts its blocks.

#![allow(dead_code)]

pub mod onnx;

use bytes::Bytes;
use cairn_graph::Failure;
use cairn_graph::ir::{Attr, Constant, Desc, Graph, Node, Source};
use cairn_graph::session::{Engine, Options, RunMode, RunTensor, Session, SessionOutput};
use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::lock::{Mutex as Ranked, Rank};
use cairn_runtime::memory::external::reason;
use cairn_runtime::memory::external::{CallbackException, Identity, UserAllocator, UserCall};
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use cairn_tensor::DType;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Numbers to compute with.
pub const X: [f32; 4] = [-3.0, 0.5, 2.0, -1.0];

/// A runtime with one device.
pub struct Machine {
    pub runtime: &'static Runtime,
}

impl Machine {
    pub fn start() -> Machine {
        Machine::of("Ascend910B1")
    }

    /// One with this SoC.
    pub fn of(soc: &str) -> Machine {
        Machine::with_memory(soc, 256 << 20)
    }

    /// One with so many bytes of device memory.
    pub fn with_memory(soc: &str, bytes: u64) -> Machine {
        let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
        config.device_memory = bytes;
        config.workers = 2;
        config.soc = soc.into();
        let runtime: &'static Runtime = Box::leak(Box::new(Runtime::start(config).unwrap()));
        runtime.set_device(0).unwrap();
        Machine { runtime }
    }

    pub fn stream(&self) -> usize {
        self.runtime.create_stream(0, 0).unwrap()
    }

    pub fn sync(&self, handle: usize) -> Result<(), cairn_runtime::error::Error> {
        let stream = self.runtime.handles.get::<Stream>(handle).unwrap();
        self.runtime.synchronize(&stream, None)
    }

    /// Device memory with these numbers in it.
    pub fn floats(&self, values: &[f32]) -> usize {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let address = self.allocate(bytes.len().max(1));
        self.runtime.shared.memory.extent(address, bytes.len()).unwrap().write(&bytes);
        address
    }

    pub fn allocate(&self, bytes: usize) -> usize {
        self.runtime.shared.memory.allocate(0, Request::bytes(bytes as u64)).unwrap()
    }

    pub fn read(&self, address: usize, count: usize) -> Vec<f32> {
        let bytes = self.runtime.shared.memory.extent(address, count * 4).unwrap().read();
        bytes.chunks(4).map(|one| f32::from_le_bytes(one.try_into().unwrap())).collect()
    }
}

/// A machine, and an engine with one session.
pub struct Fixture {
    machine: Machine,
    pub engine: Engine,
    pub id: u64,
    pub session: Arc<Session>,
}

impl std::ops::Deref for Fixture {
    type Target = Machine;
    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::with(&[])
    }

    pub fn with(options: &[(&str, &str)]) -> Fixture {
        let machine = Machine::start();
        let engine = Engine::default();
        engine.start(machine.runtime, Options::default()).unwrap();
        let id = engine.open(machine.runtime, self::options(options)).unwrap();
        let session = engine.session(id).unwrap();
        Fixture { machine, engine, id, session }
    }

    pub fn add(&self, id: u32, graph: Graph, options: &[(&str, &str)]) {
        self.try_add(id, graph, options).unwrap();
    }

    pub fn try_add(&self, id: u32, graph: Graph, options: &[(&str, &str)]) -> Result<(), Failure> {
        self.session.add(id, Arc::new(Ranked::new(Rank::Graph, graph)), self::options(options))
    }

    pub fn run(
        &self,
        id: u32,
        mode: RunMode,
        stream: usize,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<Vec<SessionOutput>, Failure> {
        self.session.run(id, mode, stream, inputs, outputs)
    }

    pub fn register(&self, stream: usize, pool: &Pool) {
        self.engine.register(self.id, stream, Some(Box::new(pool.clone()))).unwrap();
    }
}

pub fn options(pairs: &[(&str, &str)]) -> Options {
    Options::new(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into()))).unwrap()
}

/// A tensor on the device.
pub fn device(address: usize, dims: &[i64]) -> RunTensor {
    let count: i64 = dims.iter().product();
    RunTensor {
        address,
        bytes: count as usize * 4,
        dtype: Some(DType::Float),
        dims: Some(dims.to_vec()),
        host: None,
        says_host: false,
    }
}

/// A tensor on the host.
pub fn host(values: &[f32], dims: &[i64]) -> RunTensor {
    let bytes: Bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    RunTensor {
        address: bytes.as_ptr() as usize,
        bytes: bytes.len(),
        dtype: Some(DType::Float),
        dims: Some(dims.to_vec()),
        host: Some(bytes),
        says_host: true,
    }
}

/// An output without memory.
pub fn empty() -> RunTensor {
    RunTensor { address: 0, bytes: 0, dtype: None, dims: None, host: None, says_host: false }
}

/// Builds a graph node by node.
pub struct GraphBuilder(pub Graph);

impl GraphBuilder {
    pub fn new(name: &str) -> GraphBuilder {
        GraphBuilder(Graph::new(name))
    }

    pub fn data(&mut self, dims: &[i64]) -> Source {
        let index = self.0.inputs().len();
        let desc = Desc::new(DType::Float, dims);
        let node = Node {
            name: format!("data{index}"),
            kind: "Data".into(),
            inputs: vec![None],
            input_descs: vec![desc.clone()],
            output_descs: vec![desc],
            attrs: [("index".to_owned(), Attr::Int(index as i64))].into(),
            ..Node::default()
        };
        Source { node: self.0.add(node), output: 0 }
    }

    pub fn constant(&mut self, dtype: DType, dims: &[i64], bytes: &[u8]) -> Source {
        let desc = Desc::new(dtype, dims);
        let value =
            Attr::Tensor(Constant { desc: desc.clone(), bytes: Bytes::copy_from_slice(bytes) });
        let node = Node {
            name: format!("const{}", self.0.len()),
            kind: "Const".into(),
            output_descs: vec![desc],
            attrs: [("value".to_owned(), value)].into(),
            ..Node::default()
        };
        Source { node: self.0.add(node), output: 0 }
    }

    pub fn floats(&mut self, dims: &[i64], values: &[f32]) -> Source {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::Float, dims, &bytes)
    }

    pub fn ints(&mut self, values: &[i64]) -> Source {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::Int64, &[values.len() as i64], &bytes)
    }

    pub fn node(&mut self, kind: &str, inputs: &[Source]) -> Source {
        self.node_with(kind, inputs, &[])
    }

    pub fn node_with(&mut self, kind: &str, inputs: &[Source], attrs: &[(&str, Attr)]) -> Source {
        let node = Node {
            name: format!("{}{}", kind.to_lowercase(), self.0.len()),
            kind: kind.into(),
            inputs: inputs.iter().map(|one| Some(*one)).collect(),
            input_descs: vec![Desc::default(); inputs.len()],
            output_descs: vec![Desc::default()],
            attrs: attrs.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
            ..Node::default()
        };
        Source { node: self.0.add(node), output: 0 }
    }

    pub fn outputs(mut self, outputs: &[Source]) -> Graph {
        self.0.set_outputs(outputs.to_vec());
        self.0
    }
}

/// A pool over device memory that counts what goes through it, and fails on request.
#[derive(Clone)]
pub struct Pool(Arc<Counts>);

struct Counts {
    runtime: &'static Runtime,
    malloc: AtomicUsize,
    advise: AtomicUsize,
    free: AtomicUsize,
    /// The number of the call that fails, counted from 1; 0 for none.
    fails_at: AtomicUsize,
    live: Mutex<BTreeMap<usize, usize>>,
    purposes: Mutex<BTreeMap<Purpose, usize>>,
    /// Called inside the n-th allocation.
    on_allocation: Mutex<Option<(usize, Hook)>>,
    /// Called inside the first free after the n-th allocation.
    on_free: Mutex<Option<(usize, Hook)>>,
}

/// Something to do inside an allocation.
pub type Hook = Box<dyn Fn() + Send + Sync>;

impl Pool {
    pub fn new(machine: &Machine) -> Pool {
        Pool(Arc::new(Counts {
            runtime: machine.runtime,
            malloc: AtomicUsize::new(0),
            advise: AtomicUsize::new(0),
            free: AtomicUsize::new(0),
            fails_at: AtomicUsize::new(0),
            live: Mutex::default(),
            purposes: Mutex::default(),
            on_allocation: Mutex::default(),
            on_free: Mutex::default(),
        }))
    }

    pub fn mallocs(&self) -> usize {
        self.0.malloc.load(Ordering::Relaxed)
    }

    pub fn advises(&self) -> usize {
        self.0.advise.load(Ordering::Relaxed)
    }

    pub fn frees(&self) -> usize {
        self.0.free.load(Ordering::Relaxed)
    }

    pub fn live(&self) -> usize {
        self.0.live.lock().unwrap().len()
    }

    pub fn holds(&self, address: usize) -> bool {
        let live = self.0.live.lock().unwrap();
        live.range(..=address).next_back().is_some_and(|(start, bytes)| address < start + bytes)
    }

    pub fn taken_for(&self, purpose: Purpose) -> usize {
        self.0.purposes.lock().unwrap().get(&purpose).copied().unwrap_or(0)
    }

    /// Does something inside the n-th allocation.
    pub fn on_allocation(&self, n: usize, hook: Hook) {
        *self.0.on_allocation.lock().unwrap() = Some((n, hook));
    }

    /// Does something inside the first free after the n-th allocation.
    pub fn on_free(&self, n: usize, hook: Hook) {
        *self.0.on_free.lock().unwrap() = Some((n, hook));
    }

    /// Lets the n-th allocation from now on fail; 0 lets all succeed.
    pub fn fail_at(&self, n: usize) {
        let now = self.mallocs() + self.advises();
        self.0.fails_at.store(if n == 0 { 0 } else { now + n }, Ordering::Relaxed);
    }

    fn allocate_counted(&self, bytes: usize) -> usize {
        let purpose = reason().expect("a reason for every block").purpose;
        *self.0.purposes.lock().unwrap().entry(purpose).or_default() += 1;
        let count = self.mallocs() + self.advises();
        let hook = self.0.on_allocation.lock().unwrap().take_if(|(n, _)| *n == count);
        if let Some((_, hook)) = hook {
            hook();
        }
        if count == self.0.fails_at.load(Ordering::Relaxed) {
            return 0;
        }
        let address =
            self.0.runtime.shared.memory.allocate(0, Request::bytes(bytes as u64)).unwrap();
        self.0.live.lock().unwrap().insert(address, bytes);
        address
    }
}

impl UserAllocator for Pool {
    fn identity(&self) -> Identity {
        Identity { object: Arc::as_ptr(&self.0) as usize, functions: [[0; 2]; 4] }
    }

    fn takes_advice(&self) -> bool {
        true
    }

    fn call(&self, request: UserCall, _on_exit: &dyn Fn()) -> Result<usize, CallbackException> {
        Ok(match request {
            UserCall::Alloc(bytes) => {
                self.0.malloc.fetch_add(1, Ordering::Relaxed);
                self.allocate_counted(bytes)
            }
            UserCall::Advise(bytes, _) => {
                self.0.advise.fetch_add(1, Ordering::Relaxed);
                self.allocate_counted(bytes)
            }
            UserCall::Address(block) => block,
            UserCall::Free(block) => {
                self.0.free.fetch_add(1, Ordering::Relaxed);
                let allocations = self.mallocs() + self.advises();
                let hook = self.0.on_free.lock().unwrap().take_if(|(n, _)| *n <= allocations);
                if let Some((_, hook)) = hook {
                    hook();
                }
                let removed = self.0.live.lock().unwrap().remove(&block);
                assert!(removed.is_some(), "a block came back that was not handed out");
                self.0.runtime.shared.memory.free(block).unwrap();
                0
            }
        })
    }
}
