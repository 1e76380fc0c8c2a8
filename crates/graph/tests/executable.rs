//! Executables without a session: compiled, loaded and run in both domains, and the codes that come back.

mod support;

use cairn_exec::Target;
use cairn_graph::executable::{
    Bases, CallersRange, CallersUse, CompileOptions, Executable, LoadOptions, LoadedExecutable,
    OutputMemory, RunInput, RunOutput,
};
use cairn_graph::ir::{Desc, Graph};
use cairn_graph::{Failure, Status};
use cairn_runtime::clock::Epoch;
use cairn_runtime::error::{Code, Result as RuntimeResult};
use cairn_runtime::event::{self, Event};
use cairn_runtime::memory::external::{CallbackException, Identity, UserAllocator, UserCall};
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::record::{self, Kind, Sink, Stamp};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Location, Span, Task, Work};
use cairn_tensor::DType;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::*;

const DOMAINS: [(Domain, Domain); 2] = [(Domain::Acl, Domain::Ge), (Domain::Ge, Domain::Acl)];

/// y = relu(x + 1) * 2, z = x + 1, over `n` numbers, unknown where `n` is -1.
fn two_outputs(n: i64) -> Graph {
    let mut builder = GraphBuilder::new("two");
    let x = builder.data(&[n]);
    let one = builder.floats(&[1], &[1.0]);
    let two = builder.floats(&[1], &[2.0]);
    let z = builder.node("Add", &[x, one]);
    let r = builder.node("Relu", &[z]);
    let y = builder.node("Mul", &[r, two]);
    builder.outputs(&[y, z])
}

fn expected(x: &[f32]) -> [Vec<f32>; 2] {
    let z: Vec<f32> = x.iter().map(|x| x + 1.0).collect();
    [z.iter().map(|z| z.max(0.0) * 2.0).collect(), z]
}

/// The positive numbers among `n`: a size that values decide.
fn positive(n: i64) -> Graph {
    let mut builder = GraphBuilder::new("positive");
    let x = builder.data(&[n]);
    let zero = builder.floats(&[1], &[0.0]);
    let mask = builder.node("Greater", &[x, zero]);
    let selected = builder.node("MaskedSelect", &[x, mask]);
    let y = builder.node("Relu", &[selected]);
    builder.outputs(&[y])
}

/// Sums along an axis that comes in as a tensor of the device: a value that the run has to fetch.
fn sums() -> Graph {
    let mut builder = GraphBuilder::new("sums");
    let x = builder.data(&[4]);
    let axis = builder.data(&[1]);
    builder.0.node_mut(axis.node).unwrap().output_descs[0].dtype = DType::Int32;
    let y = builder.node("Cumsum", &[x, axis]);
    builder.outputs(&[y])
}

/// x broadcast from one element to `n`.
fn broadcast(n: i64, is_static: bool) -> Graph {
    let mut builder = GraphBuilder::new("wide");
    let x = builder.data(&[if is_static { 1 } else { -1 }]);
    let shape = builder.ints(&[n]);
    let y = builder.node("BroadcastTo", &[x, shape]);
    builder.outputs(&[y])
}

fn compiled(graph: Graph) -> Arc<Executable> {
    let label: Arc<str> = format!("the graph {}", graph.name).into();
    Arc::new(Executable::compile(graph, label, CompileOptions::default()).unwrap())
}

/// A machine with one stream.
struct User {
    machine: Machine,
    handle: usize,
    stream: Arc<Stream>,
}

impl User {
    fn new() -> User {
        let machine = Machine::start();
        let handle = machine.stream();
        let stream = machine.runtime.handles.get::<Stream>(handle).unwrap();
        User { machine, handle, stream }
    }

    fn register(&self, domain: Domain) -> Pool {
        let pool = Pool::new(&self.machine);
        let user = Box::new(pool.clone());
        let registry = &self.machine.runtime.allocators;
        registry.register(domain, self.handle, &self.stream, 1, user).unwrap();
        pool
    }

    fn target(&self, domain: Domain) -> Target<'static> {
        Target::registered(self.machine.runtime, self.stream.clone(), domain, self.handle)
    }

    fn load(
        &self,
        executable: &Arc<Executable>,
        domain: Domain,
    ) -> Result<LoadedExecutable, Failure> {
        executable.load(&self.target(domain), &LoadOptions { id: 7, ..LoadOptions::default() })
    }

    fn floats(&self, executable: &Executable, values: &[f32]) -> RunInput {
        let tensor = device(self.machine.floats(values), &[values.len() as i64]);
        executable.input(0, &tensor).unwrap()
    }

    fn output(&self, values: usize) -> OutputMemory {
        OutputMemory { address: self.machine.allocate(values * 4), bytes: values * 4 }
    }

    fn values(&self, output: &RunOutput) -> Vec<f32> {
        self.machine.read(output.address, output.layout.bytes() / 4)
    }

    /// Submits a task that fails: it reads where nothing is.
    fn submit_a_failure(&self) {
        let location = Location::Device(0);
        let from = Span { address: 64, bytes: 64, location };
        let to = Span { address: self.machine.allocate(64), bytes: 64, location };
        self.stream.submit(Task::copy("unrelated", from, to)).unwrap();
    }

    fn sync(&self) -> RuntimeResult<()> {
        self.machine.sync(self.handle)
    }
}

#[test]
fn both_kinds_run_in_both_domains_in_the_memory_registered_there() {
    for (domain, other) in DOMAINS {
        for n in [4, -1] {
            let user = User::new();
            let (pool, foreign) = (user.register(domain), user.register(other));
            let executable = compiled(two_outputs(n));
            assert_eq!(executable.is_static(), n == 4);
            let loaded = user.load(&executable, domain).unwrap();
            assert_eq!(pool.taken_for(Purpose::Const), 1);
            let target = user.target(domain);
            let input = user.floats(&executable, &X);
            let requested = [Some(user.output(4)), None];
            let results = loaded.run(&target, std::slice::from_ref(&input), &requested).unwrap();
            user.sync().unwrap();
            assert_eq!(results[0].address, requested[0].unwrap().address);
            assert!(results[0].block.is_none() && pool.holds(results[1].address));
            assert_eq!([user.values(&results[0]), user.values(&results[1])], expected(&X));
            let all = loaded.run(&target, &[input], &[]).unwrap();
            user.sync().unwrap();
            assert!(all.iter().all(|one| pool.holds(one.address)));
            assert_eq!([user.values(&all[0]), user.values(&all[1])], expected(&X));
            drop(loaded);
            assert_eq!(pool.live(), 3, "three outputs outlive the graph");
            drop((results, all));
            assert_eq!((pool.live(), foreign.mallocs()), (0, 0), "{domain:?}, {n}");
        }
    }
}

/// A run takes from the allocator that its caller names, whatever the graph was loaded with or is registered.
#[test]
fn a_run_may_have_an_allocator_of_its_own() {
    for n in [4, -1] {
        let user = User::new();
        let (registered, own) = (user.register(Domain::Acl), user.register(Domain::Ge));
        let executable = compiled(two_outputs(n));
        let loaded = user.load(&executable, Domain::Acl).unwrap();
        let before = registered.mallocs();
        let allocator = user.target(Domain::Ge).allocator().clone();
        let target = Target::with(user.machine.runtime, user.stream.clone(), allocator);
        let results = loaded.run(&target, &[user.floats(&executable, &X)], &[]).unwrap();
        user.sync().unwrap();
        assert!(results.iter().all(|one| own.holds(one.address)));
        assert_eq!([user.values(&results[0]), user.values(&results[1])], expected(&X));
        assert_eq!(registered.mallocs(), before);
        drop((results, loaded));
        assert_eq!((registered.live(), own.live()), (0, 0));
    }
}

/// Weights and work memory of the caller, as a model of aclmdl has them: nothing is asked of an allocator.
#[test]
fn memory_of_the_caller_takes_the_allocators_place() {
    let user = User::new();
    let pool = user.register(Domain::Acl);
    for n in [4, -1] {
        let executable = compiled(two_outputs(n));
        let constants = Some(user.machine.allocate(executable.reported_const_bytes() as usize));
        let feature = Some(user.machine.allocate(executable.reported_feature_bytes() as usize));
        let bases = Bases { constants, feature, ..Bases::default() };
        let target = user.target(Domain::Acl);
        let loaded =
            executable.load(&target, &LoadOptions { bases, ..LoadOptions::default() }).unwrap();
        assert_eq!(pool.mallocs(), 0);
        let input = user.floats(&executable, &X);
        let requested = [Some(user.output(4)), Some(user.output(4))];
        let results = loaded.run(&target, &[input], &requested).unwrap();
        user.sync().unwrap();
        assert_eq!([user.values(&results[0]), user.values(&results[1])], expected(&X));
        if executable.is_static() {
            assert_eq!(pool.mallocs(), 0);
        }
    }
    assert_eq!(pool.live(), 0);
}

#[test]
fn out_of_memory_stays_out_of_memory() {
    for (domain, _) in DOMAINS {
        for is_static in [true, false] {
            let user = User::new();
            let executable = compiled(broadcast(1 << 28, is_static));
            let loaded = user.load(&executable, domain).unwrap();
            let input = user.floats(&executable, &[1.0]);
            let failed = loaded.run(&user.target(domain), &[input], &[]).err().unwrap();
            assert_eq!(failed.code, Code::MemoryAllocation, "{}", failed.text);
            assert_eq!((failed.number(Domain::Acl), failed.status), (207001, Status::Failed));
            assert_eq!(failed.number(Domain::Ge), u32::MAX);
            assert_eq!(cairn_runtime::error::Error::from(failed).code, Code::MemoryAllocation);
            user.sync().unwrap();
        }
    }
}

/// What a user allocator refuses has the code that single operators have for it.
#[test]
fn a_failing_allocator_has_its_code_and_gets_all_blocks_back() {
    for (domain, _) in DOMAINS {
        for n in [4, -1] {
            let executable = compiled(two_outputs(n));
            let mut blocks = 0;
            for fails_at in 1.. {
                let user = User::new();
                let pool = user.register(domain);
                let input = user.floats(&executable, &X);
                pool.fail_at(fails_at);
                let loaded = user.load(&executable, domain);
                let results = loaded.and_then(|loaded| {
                    let results = loaded.run(&user.target(domain), &[input], &[])?;
                    Ok((loaded, results))
                });
                let failed = results.err();
                user.sync().unwrap();
                assert_eq!(pool.live(), 0, "failure at {fails_at}, {domain:?}, {n}");
                let Some(failed) = failed else { break };
                blocks = fails_at;
                assert_eq!(failed.code, Code::GeFailure, "{}", failed.text);
                assert_eq!(failed.number(Domain::Ge), Status::Failed.number());
            }
            assert!(blocks >= 4, "{blocks} blocks");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_an_argument_code() {
    let user = User::new();
    let executable = compiled(two_outputs(4));
    let refused = |tensor| executable.input(0, &tensor).err().unwrap();
    let memory = user.machine.allocate(64);
    let mut wrong = device(memory, &[4]);
    wrong.dtype = Some(DType::Int32);
    assert_eq!(refused(wrong).code, Code::InvalidParam);
    assert!(refused(device(0, &[4])).text.contains("no memory"));
    assert!(executable.input(1, &device(memory, &[4])).err().unwrap().text.contains("no input 1"));
    let loaded = user.load(&executable, Domain::Acl).unwrap();
    let target = user.target(Domain::Acl);
    let input = user.floats(&executable, &X);
    let failed = |inputs: &[RunInput], outputs: &[Option<OutputMemory>]| {
        let failed = loaded.run(&target, inputs, outputs).err().unwrap();
        assert_eq!((failed.code, failed.status), (Code::InvalidParam, Status::ParamInvalid));
        failed.text
    };
    assert!(failed(&[], &[]).contains("0 inputs were passed"));
    let one = std::slice::from_ref(&input);
    assert!(failed(one, &[None]).contains("1 outputs were passed"));
    let short = Some(OutputMemory { address: memory, bytes: 8 });
    assert!(failed(one, &[short, None]).contains("its memory has 8"));
    let nowhere = Some(OutputMemory { address: 64, bytes: 16 });
    assert!(failed(one, &[nowhere, None]).contains("expected memory of device 0"));
    let reuse = CompileOptions { reuse: vec![(1, 0)], ..CompileOptions::default() };
    let failed = Executable::compile(two_outputs(4), "g".into(), reuse).err().unwrap();
    assert!(failed.text.contains("input 1"), "{}", failed.text);
    loaded.unload();
    let failed = loaded.run(&target, &[input], &[]).err().unwrap();
    assert!(failed.text.contains("was unloaded"), "{}", failed.text);
}

/// An unload from inside a run, by an allocator: the run goes on with its memory, which then goes back.
#[test]
fn an_unload_during_a_run_takes_effect_after_it() {
    for n in [4, -1] {
        let user = User::new();
        let pool = user.register(Domain::Acl);
        let executable = compiled(two_outputs(n));
        let loaded = Arc::new(user.load(&executable, Domain::Acl).unwrap());
        let input = user.floats(&executable, &X);
        let to_unload = loaded.clone();
        pool.on_allocation(pool.mallocs() + 1, Box::new(move || to_unload.unload()));
        let target = user.target(Domain::Acl);
        let results = loaded.run(&target, std::slice::from_ref(&input), &[]).unwrap();
        assert_eq!(pool.live(), 2, "the outputs");
        user.sync().unwrap();
        assert_eq!([user.values(&results[0]), user.values(&results[1])], expected(&X));
        assert!(loaded.run(&target, &[input], &[]).is_err());
    }
}

/// A run that waits for sizes or values leaves what failed before it to the user's synchronize.
#[test]
fn waiting_takes_no_other_tasks_failure() {
    let user = User::new();
    let target = user.target(Domain::Acl);
    let executable = compiled(positive(4));
    let loaded = user.load(&executable, Domain::Acl).unwrap();
    let input = user.floats(&executable, &X);
    user.sync().unwrap();
    user.submit_a_failure();
    let results = loaded.run(&target, &[input], &[]).unwrap();
    assert_eq!(results[0].layout.dims(), [2]);
    assert!(user.sync().unwrap_err().text.contains("unrelated"));
    user.sync().unwrap();
    assert_eq!(user.values(&results[0]), [0.5, 2.0]);

    let executable = compiled(sums());
    let loaded = user.load(&executable, Domain::Acl).unwrap();
    let x = user.floats(&executable, &[1.0, 2.0, 3.0, 4.0]);
    let mut axis = device(user.machine.floats(&[0.0]), &[1]);
    axis.dtype = Some(DType::Int32);
    let axis = executable.input(1, &axis).unwrap();
    user.submit_a_failure();
    let results = loaded.run(&target, &[x, axis], &[]).unwrap();
    assert!(user.sync().unwrap_err().text.contains("unrelated"));
    assert_eq!(user.values(&results[0]), [1.0, 3.0, 6.0, 10.0]);
}

/// A node of the run itself that failed fails the run: its sizes are garbage.
#[test]
fn waiting_reports_the_failure_of_its_own_nodes() {
    let user = User::new();
    let executable = compiled(positive(-1));
    let loaded = user.load(&executable, Domain::Acl).unwrap();
    let mut tensor = device(user.machine.allocate(64), &[1 << 20]);
    tensor.bytes = 4 << 20;
    // What the run itself allocates is not within the size that is claimed here.
    let _after = user.machine.allocate(8 << 20);
    let input = executable.input(0, &tensor).unwrap();
    let failed = loaded.run(&user.target(Domain::Acl), &[input], &[]).err().unwrap();
    assert_eq!(failed.code, Code::RtParamInvalid, "{}", failed.text);
    assert!(failed.text.contains("greater") && failed.text.contains("4194304"), "{}", failed.text);
    assert_eq!(user.sync().unwrap_err().text, failed.text, "the stream has it too");
}

/// Blocks its stream until it is released; sends whether it was.
struct Gate {
    released: Mutex<Receiver<()>>,
    opened: Sender<bool>,
}

impl Work for Gate {
    fn run(&self) -> RuntimeResult<()> {
        let released = self.released.lock().unwrap().recv_timeout(Duration::from_secs(20));
        self.opened.send(released.is_ok()).unwrap();
        Ok(())
    }
}

/// What another task does after the node that decides a size is not waited for: here a task that ends only when the
/// run has returned, submitted from the allocator's free, between the node and the wait.
#[test]
fn waiting_does_not_wait_for_what_comes_after_its_node() {
    let user = User::new();
    let pool = user.register(Domain::Acl);
    let mut builder = GraphBuilder::new("positive");
    let x = builder.data(&[4]);
    let zero = builder.floats(&[1], &[0.0]);
    let mask = builder.node("Greater", &[x, zero]);
    let selected = builder.node("MaskedSelect", &[x, mask]);
    let executable = compiled(builder.outputs(&[selected]));
    let loaded = user.load(&executable, Domain::Acl).unwrap();
    let input = user.floats(&executable, &X);
    let (release, released) = channel();
    let (opened, outcome) = channel();
    let gate = Arc::new(Gate { released: Mutex::new(released), opened });
    let stream = user.stream.clone();
    // Const memory, the mask, the output, and perhaps a workspace: the free that follows the output is after its node.
    let submit = move || {
        let body = Body::Work(gate.clone());
        stream.submit(Task::bare("gate", body)).unwrap();
    };
    pool.on_free(3, Box::new(submit));
    let results = loaded.run(&user.target(Domain::Acl), &[input], &[]).unwrap();
    release.send(()).unwrap();
    assert_eq!(results[0].layout.dims(), [2]);
    assert!(outcome.recv().unwrap(), "the run returned while the later task was blocked");
    user.sync().unwrap();
    assert_eq!(user.values(&results[0]), [0.5, 2.0]);
}

/// Variables are inputs after those of the graph, and are the caller's to keep.
#[test]
fn variables_come_in_after_the_inputs() {
    let user = User::new();
    let mut builder = GraphBuilder::new("kept");
    let x = builder.data(&[4]);
    let node = cairn_graph::ir::Node {
        name: "w".into(),
        kind: "Variable".into(),
        output_descs: vec![Desc::new(DType::Float, &[4])],
        ..Default::default()
    };
    let w = cairn_graph::ir::Source { node: builder.0.add(node), output: 0 };
    let y = builder.node("Add", &[x, w]);
    let executable = compiled(builder.outputs(&[y]));
    assert_eq!((executable.inputs.len(), executable.variables.len()), (1, 1));
    let loaded = user.load(&executable, Domain::Ge).unwrap();
    let value = device(user.machine.floats(&[1.0; 4]), &[4]);
    let inputs = [user.floats(&executable, &X), executable.input(1, &value).unwrap()];
    let results = loaded.run(&user.target(Domain::Ge), &inputs, &[]).unwrap();
    user.sync().unwrap();
    assert_eq!(user.values(&results[0]), X.map(|x| x + 1.0));
}

/// A pool whose n-th block is memory of the caller's.
#[derive(Clone)]
struct OverlappingPool {
    pool: Pool,
    callers_address: usize,
    at: usize,
    calls: Arc<AtomicUsize>,
}

impl UserAllocator for OverlappingPool {
    fn identity(&self) -> Identity {
        self.pool.identity()
    }

    fn takes_advice(&self) -> bool {
        true
    }

    fn call(&self, request: UserCall, on_exit: &dyn Fn()) -> Result<usize, CallbackException> {
        let is_allocation = matches!(request, UserCall::Alloc(_) | UserCall::Advise(..));
        match request {
            _ if is_allocation && self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.at => {
                Ok(self.callers_address)
            }
            UserCall::Address(block) if block == self.callers_address => Ok(block),
            UserCall::Free(block) if block == self.callers_address => Ok(0),
            request => self.pool.call(request, on_exit),
        }
    }
}

/// Runs a graph in a pool whose `at`-th block lies over the caller's input or output; false if it took fewer.
fn refuses(n: i64, overlaps_output: bool, at: usize) -> bool {
    let user = User::new();
    let executable = compiled(two_outputs(n));
    let values = user.machine.floats(&[1.5; 1 << 14]);
    let input = executable.input(0, &device(values, &[4])).unwrap();
    let outputs = [Some(user.output(1 << 14)), Some(user.output(1 << 14))];
    let callers_address = match overlaps_output {
        true => outputs[1].unwrap().address,
        false => input.device_address().unwrap(),
    };
    let pool = Pool::new(&user.machine);
    let calls = Arc::new(AtomicUsize::new(0));
    let overlapping =
        OverlappingPool { pool: pool.clone(), callers_address, at, calls: calls.clone() };
    let registry = &user.machine.runtime.allocators;
    let boxed = Box::new(overlapping);
    registry.register(Domain::Ge, user.handle, &user.stream, 1, boxed).unwrap();
    let address = input.device_address().unwrap();
    let mut in_use = vec![CallersRange { what: CallersUse::Input(0), address, bytes: 4 << 14 }];
    in_use.extend(outputs.iter().flatten().enumerate().map(|(at, output)| CallersRange {
        what: CallersUse::Output(at),
        address: output.address,
        bytes: output.bytes,
    }));
    let run = || {
        let options = LoadOptions { in_use: &in_use, ..LoadOptions::default() };
        let loaded = executable.load(&user.target(Domain::Ge), &options)?;
        loaded.run(&user.target(Domain::Ge), std::slice::from_ref(&input), &outputs).map(drop)
    };
    let result = run();
    user.sync().unwrap();
    if calls.load(Ordering::Relaxed) < at {
        result.unwrap();
        return false;
    }
    let failure = result.expect_err("a block lies over memory of the caller");
    let what = if overlaps_output { "output 1 of the caller" } else { "input 0 of the caller" };
    assert!(failure.text.contains(what), "{}", failure.text);
    assert!(failure.text.contains(&format!("{callers_address:#x}")), "{}", failure.text);
    assert_eq!(failure.code, Code::GeFailure);
    assert_eq!(user.machine.read(values, 4), [1.5; 4], "nothing was written over it");
    assert_eq!(pool.live(), 0, "all blocks are back");
    true
}

#[test]
fn no_block_of_a_pool_lies_over_memory_of_the_caller() {
    for n in [4, -1] {
        for overlaps_output in [false, true] {
            let refused = (1..).take_while(|at| refuses(n, overlaps_output, *at)).count();
            assert!(refused >= 2, "{refused} blocks of the graph over {n}");
        }
    }
}

/// Nor over memory that the program set for constants, which the load fills.
#[test]
fn no_block_of_a_pool_lies_over_memory_that_the_program_set() {
    let user = User::new();
    let executable = compiled(two_outputs(4));
    let base = user.output(1 << 14).address;
    let calls = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(&user.machine);
    let overlapping = OverlappingPool { pool: pool.clone(), callers_address: base, at: 1, calls };
    let registry = &user.machine.runtime.allocators;
    registry.register(Domain::Ge, user.handle, &user.stream, 1, Box::new(overlapping)).unwrap();
    let bases = Bases { constants: Some(base), ..Bases::default() };
    let options = LoadOptions { bases, ..LoadOptions::default() };
    let failure = executable.load(&user.target(Domain::Ge), &options).err().expect("refused");
    assert!(failure.text.contains("the const memory that the program set"), "{}", failure.text);
    assert_eq!(failure.code, Code::GeFailure);
    user.sync().unwrap();
    assert_eq!(pool.live(), 0, "all blocks are back");
}

#[test]
fn constants_go_back_after_every_stream_that_read_them() {
    let user = User::new();
    let executable = compiled(two_outputs(-1));
    let other_handle = user.machine.stream();
    let other = user.machine.runtime.handles.get::<Stream>(other_handle).unwrap();
    let gate = Event::new(1, event::Kind::Plain, 1).unwrap();
    gate.wait(&other, Duration::ZERO).unwrap();
    let loaded = user.load(&executable, Domain::Ge).unwrap();
    let input = user.floats(&executable, &[1.0, -2.0, 3.0, -4.0]);
    let target = Target::built_in(user.machine.runtime, other.clone());
    let results = loaded.run(&target, std::slice::from_ref(&input), &[]).unwrap();
    let seq = user.machine.runtime.shared.progress.submitted(other.index);
    loaded.unload();
    let last = Epoch { stream: other.index, seq };
    assert!(user.stream.ordered().covers(last));
    gate.record(&user.machine.runtime.handles.get::<Stream>(user.machine.stream()).unwrap())
        .unwrap();
    user.machine.sync(other_handle).unwrap();
    assert_eq!(
        results.iter().map(|one| user.values(one)).collect::<Vec<_>>(),
        expected(&[1.0, -2.0, 3.0, -4.0])
    );
}

/// The streams on which blocks went back.
#[derive(Default)]
struct Frees(Mutex<Vec<Option<u32>>>);

impl Sink for Frees {
    fn event(&self, _: &Stamp, event: &record::Event<'_>) {
        if let record::Event::Free { stream, .. } = *event {
            self.0.lock().unwrap().push(stream);
        }
    }
}

#[test]
fn memory_that_is_replaced_goes_back_on_the_stream_of_the_last_run() {
    let user = User::new();
    let executable = compiled(two_outputs(4));
    let loaded = user.load(&executable, Domain::Ge).unwrap();
    let other = user.machine.stream();
    let other = user.machine.runtime.handles.get::<Stream>(other).unwrap();
    let target = Target::built_in(user.machine.runtime, other.clone());
    let input = user.floats(&executable, &X);
    loaded.run(&target, std::slice::from_ref(&input), &[]).unwrap();
    let frees = Arc::new(Frees::default());
    user.machine.runtime.shared.spine.subscribe(frees.clone(), &[Kind::Free]).unwrap();
    let callers_address = user.machine.allocate(executable.reported_feature_bytes() as usize);
    loaded.rebase(&Bases { feature: Some(callers_address), ..Bases::default() });
    assert_eq!(*frees.0.lock().unwrap(), [Some(other.index)]);
    user.machine.runtime.synchronize(&other, None).unwrap();
    let results = loaded.run(&user.target(Domain::Ge), &[input], &[]).unwrap();
    user.sync().unwrap();
    assert_eq!(user.values(&results[0]), expected(&X)[0]);
}

/// A run that takes memory while the feature memory of the graph is replaced.
#[test]
fn memory_that_is_replaced_stays_while_a_run_is_submitted() {
    let user = User::new();
    let pool = user.register(Domain::Ge);
    let executable = compiled(two_outputs(4));
    let loaded = Arc::new(user.load(&executable, Domain::Ge).unwrap());
    let (held, callers_address) =
        (pool.live(), user.machine.allocate(executable.reported_feature_bytes() as usize));
    let seen: Arc<Mutex<Option<usize>>> = Arc::default();
    let hook = {
        let (loaded, pool, seen) = (loaded.clone(), pool.clone(), seen.clone());
        move || {
            loaded.rebase(&Bases { feature: Some(callers_address), ..Bases::default() });
            *seen.lock().unwrap() = Some(pool.live());
        }
    };
    pool.on_allocation(pool.mallocs() + pool.advises() + 1, Box::new(hook));
    let results =
        loaded.run(&user.target(Domain::Ge), &[user.floats(&executable, &X)], &[]).unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(held), "the run is not submitted yet");
    assert_eq!(pool.live(), held - 1 + results.len(), "now the old memory is back");
    user.sync().unwrap();
    assert_eq!(user.values(&results[0]), expected(&X)[0]);
}
