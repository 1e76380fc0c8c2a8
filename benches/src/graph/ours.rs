//! The graph engine: models as graphs of a session, run on a stream.

use super::compare::Engine;
use super::model::{Model, Op, Tensor};
use cairn_graph::executable::{Kind, RunTensor};
use cairn_graph::ir::{Attr, Constant, Desc, Graph, Node, Source};
use cairn_graph::session::{self, Options, RunMode, Session};
use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use cairn_tensor::DType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A runtime of its own with a session of the graph engine.
pub struct CairnEngine {
    runtime: &'static Runtime,
    session: Arc<Session>,
    stream: Arc<Stream>,
    handle: usize,
}

/// Room for the weights of the largest model, and more.
const DEVICE: u64 = 4 << 30;

impl CairnEngine {
    /// With this many threads.
    pub fn new(threads: usize) -> CairnEngine {
        let mut config = Config::from_env().expect("the settings are valid");
        config.workers = threads;
        config.device_memory = config.device_memory.min(DEVICE);
        let runtime: &'static Runtime =
            Box::leak(Box::new(Runtime::start(config).expect("the runtime starts")));
        runtime.set_device(0).expect("device 0");
        let engine = session::Engine::default();
        engine.start(runtime, Options::default()).expect("an engine can be created");
        let id = engine.open(runtime, Options::default()).expect("a session can be created");
        let session = engine.session(id).expect("the session exists");
        let handle = runtime.create_stream(0, 0).expect("a stream can be created");
        let stream = runtime.handles.get::<Stream>(handle).expect("the stream exists");
        CairnEngine { runtime, session, stream, handle }
    }

    /// Reads, compiles and loads a model from its bytes; ready to run when it returns.
    pub fn load(&self, id: u32, bytes: &[u8], level: &str) {
        let graph = cairn_graph::model::read(bytes.to_vec()).expect("the model can be read");
        let graph = Arc::new(Mutex::new(Rank::Graph, graph));
        let options = Options::new([("ge.oo.level".to_owned(), level.to_owned())]);
        self.session
            .add(id, graph, options.expect("the options are valid"))
            .expect("the graph can be added");
        let entry = self.session.graph(id).expect("the graph exists");
        entry.compile(Vec::new()).expect("the graph compiles");
        self.session.load(&entry, self.handle, &Options::default(), true).expect("the graph loads");
        self.runtime.synchronize(&self.stream, None).expect("the constants are there");
    }

    /// Gives a graph's memory back.
    pub fn unload(&self, id: u32) {
        self.session.remove(id).expect("the graph exists");
        self.runtime.synchronize(&self.stream, None).expect("the tasks succeed");
    }

    /// Bytes of the plan for intermediates, and a lower bound of any plan.
    pub fn planned(&self, id: u32) -> (u64, u64) {
        let compiled =
            self.session.graph(id).and_then(|entry| entry.compiled()).expect("the graph compiles");
        match &compiled.kind {
            Kind::Static { program, .. } => (program.feature_bytes, program.feature_lower_bound),
            Kind::Dynamic { .. } => (0, 0),
        }
    }

    /// A loaded graph with its inputs and its output in device memory.
    pub fn runner(&self, id: u32, model: &Model) -> Runner<'_> {
        let tensor = |dims: &[usize]| {
            let bytes = dims.iter().product::<usize>() * 4;
            let request = Request::bytes(bytes as u64);
            let address =
                self.runtime.shared.memory.allocate(0, request).expect("the device has memory");
            let dims = Some(dims.iter().map(|size| *size as i64).collect());
            let dtype = Some(DType::Float);
            RunTensor { address, bytes, dtype, dims, host: None, says_host: false }
        };
        let mut inputs = Vec::new();
        for (at, numbers) in model.inputs().into_iter().zip(model.input_values()) {
            let input = tensor(&model.tensors[at].1);
            let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
            let extent = self.runtime.shared.memory.extent(input.address, bytes.len());
            extent.expect("the device has memory").write(&bytes);
            inputs.push(input);
        }
        let outputs = [tensor(&model.tensors[model.output()].1)];
        Runner { engine: self, id, inputs, outputs }
    }
}

/// A loaded graph with its tensors.
pub struct Runner<'a> {
    engine: &'a CairnEngine,
    id: u32,
    inputs: Vec<RunTensor>,
    outputs: [RunTensor; 1],
}

impl Engine for Runner<'_> {
    fn run(&mut self) {
        let CairnEngine { runtime, session, stream, handle } = self.engine;
        let out = session.run(self.id, RunMode::Loaded, *handle, &self.inputs, &self.outputs);
        out.expect("the stream takes tasks");
        runtime.synchronize(stream, None).expect("the tasks succeed");
    }

    fn output(&mut self) -> Vec<f32> {
        let out = &self.outputs[0];
        let memory = &self.engine.runtime.shared.memory;
        let bytes = memory.extent(out.address, out.bytes).expect("the device has memory").read();
        let number =
            |one: &[u8]| f32::from_le_bytes(one.try_into().expect("chunks have four bytes"));
        bytes.chunks(4).map(number).collect()
    }
}

/// A model as bytes of the graph engine's format.
pub fn write(model: &Model) -> Vec<u8> {
    let mut builder = GraphBuilder { graph: Graph::new(&model.name), sources: BTreeMap::new() };
    for (at, (op, dims)) in model.tensors.iter().enumerate() {
        let source = builder.add_tensor(model, op, dims);
        builder.sources.insert(at, source);
    }
    let out = builder.sources[&model.output()];
    builder.graph.set_outputs(vec![out]);
    cairn_graph::model::write(&builder.graph)
}

struct GraphBuilder {
    graph: Graph,
    sources: BTreeMap<Tensor, Source>,
}

impl GraphBuilder {
    fn add_tensor(&mut self, model: &Model, op: &Op, dims: &[usize]) -> Source {
        let mut sizes: Vec<i64> = dims.iter().map(|size| *size as i64).collect();
        match op {
            Op::Input => {
                if model.has_dynamic_batch {
                    sizes[0] = -1;
                }
                let index = Attr::Int(self.graph.inputs().len() as i64);
                let desc = Desc::new(DType::Float, &sizes);
                self.add("Data", &[], desc, &[("index", index)], 1)
            }
            Op::Weight(numbers) => self.floats(&sizes, numbers),
            Op::Add(a, b) => self.node("Add", &[*a, *b]),
            Op::Linear(x, weight, bias) => self.node("MatMulV2", &[*x, *weight, *bias]),
            Op::MatMul(a, b) => self.node("BatchMatMulV2", &[*a, *b]),
            Op::Relu(x) => self.node("Relu", &[*x]),
            Op::Gelu(x) => self.node("GeluV2", &[*x]),
            Op::Softmax(x) => self.node("SoftmaxV2", &[*x]),
            Op::Scale(x, scale) => {
                let scale = self.floats(&[], &[*scale]);
                let x = self.sources[x];
                self.add("Mul", &[x, scale], Desc::default(), &[], 1)
            }
            Op::LayerNorm(x, gain, bias) => {
                let width = self.ints(&[sizes[sizes.len() - 1]]);
                let [x, gain, bias] = [x, gain, bias].map(|one| self.sources[one]);
                let epsilon = [("epsilon", Attr::Float(1e-5))];
                self.add("LayerNormV4", &[x, width, gain, bias], Desc::default(), &epsilon, 3)
            }
            Op::Reshape(x) => {
                let (x, sizes) = (self.sources[x], self.ints(&sizes));
                self.add("Reshape", &[x, sizes], Desc::default(), &[], 1)
            }
            Op::Transpose(x, order) => {
                let order: Vec<i64> = order.iter().map(|dim| *dim as i64).collect();
                let (x, order) = (self.sources[x], self.ints(&order));
                self.add("Transpose", &[x, order], Desc::default(), &[], 1)
            }
        }
    }

    fn node(&mut self, kind: &str, inputs: &[Tensor]) -> Source {
        let inputs: Vec<Source> = inputs.iter().map(|one| self.sources[one]).collect();
        self.add(kind, &inputs, Desc::default(), &[], 1)
    }

    fn floats(&mut self, sizes: &[i64], numbers: &[f32]) -> Source {
        let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
        self.constant(DType::Float, sizes, bytes)
    }

    fn ints(&mut self, numbers: &[i64]) -> Source {
        let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
        self.constant(DType::Int64, &[numbers.len() as i64], bytes)
    }

    fn constant(&mut self, dtype: DType, sizes: &[i64], bytes: Vec<u8>) -> Source {
        let desc = Desc::new(dtype, sizes);
        let value = Attr::Tensor(Constant { desc: desc.clone(), bytes: bytes.into() });
        self.add("Const", &[], desc, &[("value", value)], 1)
    }

    fn add(
        &mut self,
        kind: &str,
        inputs: &[Source],
        desc: Desc,
        attrs: &[(&str, Attr)],
        outputs: usize,
    ) -> Source {
        let is_data = kind == "Data";
        let node = Node {
            name: format!("{}{}", kind.to_lowercase(), self.graph.len()),
            kind: kind.into(),
            inputs: match is_data {
                true => vec![None],
                false => inputs.iter().map(|one| Some(*one)).collect(),
            },
            input_descs: match is_data {
                true => vec![desc.clone()],
                false => vec![Desc::default(); inputs.len()],
            },
            output_descs: vec![desc; outputs],
            attrs: attrs.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
            ..Node::default()
        };
        Source { node: self.graph.add(node), output: 0 }
    }
}
