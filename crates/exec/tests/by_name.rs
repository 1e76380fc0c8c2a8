//! Calls by name without a door: inference, host inputs, the allocator of a domain, and waiting for sizes.

use bytes::Bytes;
use cairn_exec::{NamedCall, NamedOutput, Shapes, Target};
use cairn_ops::{Node, Tensor, nodes};
use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::error::{Code, Result};
use cairn_runtime::memory::external::{CallbackException, Identity, UserAllocator, UserCall};
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Location, Span, Task, Work};
use cairn_tensor::{DType, Layout};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const X: [f32; 4] = [-3.0, 0.5, 2.0, -1.0];

/// A runtime with one stream.
struct Fixture {
    runtime: &'static Runtime,
    handle: usize,
    stream: Arc<Stream>,
}

impl Fixture {
    fn new() -> Fixture {
        let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
        config.device_memory = 64 << 20;
        config.workers = 2;
        let runtime: &'static Runtime = Box::leak(Box::new(Runtime::start(config).unwrap()));
        runtime.set_device(0).unwrap();
        let handle = runtime.create_stream(0, 0).unwrap();
        let stream = runtime.handles.get::<Stream>(handle).unwrap();
        Fixture { runtime, handle, stream }
    }

    fn allocate(&self, bytes: usize) -> usize {
        self.runtime.shared.memory.allocate(0, Request::bytes(bytes as u64)).unwrap()
    }

    fn bytes(&self, bytes: &[u8]) -> usize {
        let address = self.allocate(bytes.len());
        self.runtime.shared.memory.extent(address, bytes.len()).unwrap().write(bytes);
        address
    }

    fn floats(&self, values: &[f32]) -> Tensor {
        Tensor::new(floats(values.len()), self.bytes(&little_endian(values)))
    }

    fn read(&self, address: usize, count: usize) -> Vec<f32> {
        let bytes = self.runtime.shared.memory.extent(address, count * 4).unwrap().read();
        bytes.chunks(4).map(|one| f32::from_le_bytes(one.try_into().unwrap())).collect()
    }

    fn target(&self, domain: Domain) -> Target<'static> {
        Target::registered(self.runtime, self.stream.clone(), domain, self.handle)
    }

    fn register(&self, domain: Domain) -> Pool {
        let pool = Pool(Arc::new(Calls {
            runtime: self.runtime,
            log: Mutex::default(),
            on_free: Mutex::default(),
        }));
        let user = Box::new(pool.clone());
        let registry = &self.runtime.allocators;
        registry.register(domain, self.handle, &self.stream, 1, user).unwrap();
        pool
    }

    fn sync(&self) -> Result<()> {
        self.runtime.synchronize(&self.stream, None)
    }

    /// The numbers that a mask selects, by name.
    fn select(&self, x: Tensor, domain: Domain) -> Result<(Vec<Layout>, usize)> {
        let count = x.layout.dims()[0];
        let mask: Vec<u8> = X.iter().map(|x| u8::from(*x > 0.0)).cycle().take(count).collect();
        let mask = Tensor::new(Layout::contiguous(DType::Bool, &[count]), self.bytes(&mask));
        let address = self.allocate(count * 4);
        let output = NamedOutput { layout: None, address, bytes: count * 4 };
        let call = NamedCall { node: node("MaskedSelect"), attributes: &[] };
        let inputs = [Some(x), Some(mask)];
        let layouts = call.run(&self.target(domain), &inputs, &[output], Shapes::Inferred)?;
        Ok((layouts, address))
    }
}

fn little_endian(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(count: usize) -> Layout {
    Layout::contiguous(DType::Float, &[count])
}

fn node(name: &str) -> &'static Node {
    nodes()[name]
}

/// An allocator that logs its calls, and may run a function in a free.
#[derive(Clone)]
struct Pool(Arc<Calls>);

struct Calls {
    runtime: &'static Runtime,
    log: Mutex<Vec<&'static str>>,
    on_free: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Pool {
    fn log(&self) -> Vec<&'static str> {
        self.0.log.lock().unwrap().clone()
    }
}

impl UserAllocator for Pool {
    fn identity(&self) -> Identity {
        Identity { object: Arc::as_ptr(&self.0) as usize, functions: [[0; 2]; 4] }
    }

    fn takes_advice(&self) -> bool {
        false
    }

    fn call(
        &self,
        request: UserCall,
        _on_exit: &dyn Fn(),
    ) -> std::result::Result<usize, CallbackException> {
        let memory = &self.0.runtime.shared.memory;
        Ok(match request {
            UserCall::Alloc(bytes) | UserCall::Advise(bytes, _) => {
                self.0.log.lock().unwrap().push("alloc");
                memory.allocate(0, Request::bytes(bytes as u64)).unwrap()
            }
            UserCall::Address(block) => block,
            UserCall::Free(block) => {
                self.0.log.lock().unwrap().push("free");
                let hook = self.0.on_free.lock().unwrap().take();
                if let Some(hook) = hook {
                    hook();
                }
                memory.free(block).unwrap();
                0
            }
        })
    }
}

/// The copy of a host input comes from the allocator of the call's domain, and is back when the call returns.
#[test]
fn host_inputs_lie_in_the_domains_memory_during_the_call() {
    for (domain, other) in [(Domain::Acl, Domain::Ge), (Domain::Ge, Domain::Acl)] {
        let fixture = Fixture::new();
        let (pool, foreign) = (fixture.register(domain), fixture.register(other));
        let bytes: Bytes = little_endian(&X).into();
        let address = bytes.as_ptr() as usize;
        let x = Tensor { layout: floats(4), address, constant: Some(bytes) };
        let out = fixture.allocate(16);
        let output = NamedOutput { layout: Some(floats(4)), address: out, bytes: 16 };
        let call = NamedCall { node: node("Relu"), attributes: &[] };
        let layouts =
            call.run(&fixture.target(domain), &[Some(x)], &[output], Shapes::Known).unwrap();
        assert!(layouts.is_empty());
        assert_eq!((pool.log(), foreign.log()), (vec!["alloc", "free"], vec![]));
        fixture.sync().unwrap();
        assert_eq!(fixture.read(out, 4), [0.0, 0.5, 2.0, 0.0]);
    }
}

#[test]
fn shapes_are_inferred_and_short_memory_is_refused() {
    let fixture = Fixture::new();
    let call = NamedCall { node: node("Relu"), attributes: &[] };
    let x = fixture.floats(&X);
    assert_eq!(call.infer(&[Some(x.clone())]).unwrap(), [floats(4)]);
    let target = Target::built_in(fixture.runtime, fixture.stream.clone());
    let short = NamedOutput { layout: None, address: fixture.allocate(8), bytes: 8 };
    let refused = call.run(&target, &[Some(x.clone())], &[short], Shapes::Known).unwrap_err();
    assert_eq!(refused.code, Code::InvalidParam);
    assert!(
        refused.text.contains("Relu: output 0") && refused.text.contains("16 bytes"),
        "{refused}"
    );
    let output = NamedOutput { bytes: 16, address: fixture.allocate(16), ..short };
    let shapes = call.run(&target, &[Some(x)], &[output], Shapes::Inferred).unwrap();
    assert_eq!(shapes, [floats(4)]);
    fixture.sync().unwrap();
}

/// A wait for sizes leaves what failed before it to the user's synchronize.
#[test]
fn sizes_come_although_another_task_failed() {
    let fixture = Fixture::new();
    let location = Location::Device(0);
    let from = Span { address: 64, bytes: 64, location };
    let to = Span { address: fixture.allocate(64), bytes: 64, location };
    fixture.stream.submit(Task::copy("unrelated", from, to)).unwrap();
    let (layouts, address) = fixture.select(fixture.floats(&X), Domain::Acl).unwrap();
    assert_eq!(layouts, [floats(2)]);
    assert!(fixture.sync().unwrap_err().text.contains("unrelated"));
    fixture.sync().unwrap();
    assert_eq!(fixture.read(address, 2), [0.5, 2.0]);
}

#[test]
fn a_call_that_fails_itself_gives_no_sizes() {
    let fixture = Fixture::new();
    let too_long = Tensor::new(floats(1 << 20), fixture.allocate(64));
    let failed = fixture.select(too_long, Domain::Acl).unwrap_err();
    assert_eq!(failed.code, Code::RtParamInvalid);
    assert!(failed.text.contains("MaskedSelect") && failed.text.contains("4194304"), "{failed}");
    assert_eq!(fixture.sync().unwrap_err().text, failed.text, "the stream has it too");
}

/// Blocks its stream until it is released; says whether it was.
struct Gate {
    released: Mutex<Receiver<()>>,
    opened: Sender<bool>,
}

impl Work for Gate {
    fn run(&self) -> Result<()> {
        let released = self.released.lock().unwrap().recv_timeout(Duration::from_secs(20));
        self.opened.send(released.is_ok()).unwrap();
        Ok(())
    }
}

/// A task that ends only when the call has returned, submitted between the call and its wait, is not waited for.
#[test]
fn sizes_do_not_wait_for_later_tasks() {
    let fixture = Fixture::new();
    let pool = fixture.register(Domain::Acl);
    let (release, released) = channel();
    let (opened, outcome) = channel();
    let gate = Arc::new(Gate { released: Mutex::new(released), opened });
    let stream = fixture.stream.clone();
    *pool.0.on_free.lock().unwrap() = Some(Box::new(move || {
        stream.submit(Task::bare("gate", Body::Work(gate.clone()))).unwrap();
    }));
    let bytes: Bytes = little_endian(&X).into();
    let address = bytes.as_ptr() as usize;
    let x = Tensor { layout: floats(4), address, constant: Some(bytes) };
    let (layouts, _) = fixture.select(x, Domain::Acl).unwrap();
    release.send(()).unwrap();
    assert_eq!(layouts, [floats(2)]);
    assert!(outcome.recv().unwrap(), "the call returned while the later task was blocked");
    fixture.sync().unwrap();
}
