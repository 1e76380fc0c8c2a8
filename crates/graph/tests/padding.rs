//! A host input takes the same number of bytes in a call by name, in a static and in a dynamic graph.

mod support;

use bytes::Bytes;
use cairn_exec::{NamedCall, NamedOutput, Shapes, Target};
use cairn_graph::executable::{CompileOptions, Executable, LoadOptions};
use cairn_ops::{Tensor, nodes};
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::record::{Event, Kind, Sink, Stamp};
use cairn_tensor::{DType, Layout};
use std::sync::{Arc, Mutex};
use support::*;

/// Bytes that copies of host inputs asked for.
#[derive(Default)]
struct RequestLog(Mutex<Vec<u64>>);

impl Sink for RequestLog {
    fn event(&self, _: &Stamp, event: &Event<'_>) {
        if let Event::Alloc { purpose: Purpose::HostCopy, bytes, .. } = *event {
            self.0.lock().unwrap().push(bytes);
        }
    }
}

/// Too many numbers for a dynamic graph to compute with them on the host.
const COUNT: usize = 4096;

fn run_graph(target: &Target<'_>, n: i64) {
    let mut builder = GraphBuilder::new("relu");
    let x = builder.data(&[n]);
    let y = builder.node("Relu", &[x]);
    let (graph, options) = (builder.outputs(&[y]), CompileOptions::default());
    let executable = Arc::new(Executable::compile(graph, "the graph".into(), options).unwrap());
    let input = executable.input(0, &host(&[1.0; COUNT], &[COUNT as i64])).unwrap();
    let loaded = executable.load(target, &LoadOptions::default()).unwrap();
    loaded.run(target, &[input], &[]).unwrap();
}

fn run_by_name(target: &Target<'_>, out: usize) {
    let bytes: Bytes = [1f32; COUNT].iter().flat_map(|x| x.to_le_bytes()).collect();
    let layout = Layout::contiguous(DType::Float, &[COUNT]);
    let input = Tensor { layout, address: bytes.as_ptr() as usize, constant: Some(bytes) };
    let output = NamedOutput { layout: Some(layout), address: out, bytes: 4 * COUNT };
    let call = NamedCall { node: nodes()["Relu"], attributes: &[] };
    call.run(target, &[Some(input)], &[output], Shapes::Known).unwrap();
}

#[test]
fn the_padding_of_a_host_input_depends_on_the_soc() {
    for (soc, padded) in [("Ascend910B1", 16384 + 32), ("Ascend950PR_9599", 16384)] {
        let machine = Machine::of(soc);
        let stream = machine.runtime.stream(machine.stream()).unwrap();
        let target = Target::built_in(machine.runtime, stream);
        let requests = Arc::new(RequestLog::default());
        machine.runtime.shared.spine.subscribe(requests.clone(), &[Kind::Alloc]).unwrap();
        run_graph(&target, COUNT as i64);
        run_graph(&target, -1);
        run_by_name(&target, machine.allocate(4 * COUNT));
        machine.runtime.synchronize(&target.stream, None).unwrap();
        assert_eq!(*requests.0.lock().unwrap(), [padded; 3], "{soc}");
    }
}
