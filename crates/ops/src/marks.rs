//! What kind of operator a row is: facts that its users rely on besides what the row computes.

use crate::table::Node;

/// The marks of an operator by IR name. A graph knows its nodes by these and never by their names; the tests
/// `marks` and `indexed` of this crate hold every row to what it says here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// Each element of its one output depends on the elements at the same position alone, and on inputs with one
    /// element: computed in pieces it gives the same bytes. Fusion relies on it.
    pub elementwise: bool,
    /// It draws random numbers. It is never computed ahead of a run, neither as a constant nor on the host;
    /// planning one that draws and is not marked fails.
    pub random: bool,
    /// Its output has the elements of its first input in the same order: where types are equal it may be the
    /// same memory, and nothing runs.
    pub view: bool,
    /// It writes its first input in place; its first output is that memory. Of a list, every tensor is the output with
    /// its number.
    pub writes_first: bool,
    /// It writes other inputs in place: pairs of an output and of the declared index of the input whose memory it is.
    pub writes: &'static [(usize, usize)],
    /// Its outputs follow from the sizes and types of its inputs; it reads no element. It can be answered on
    /// the host while the inputs' values are unknown.
    pub from_shapes: bool,
    /// The declared indices of inputs whose values must be known on the host before it can be planned.
    pub needs_values: &'static [usize],
    /// The sizes of its outputs depend on values: inference gives the largest they can be.
    pub sized_by_values: bool,
    /// It communicates with other ranks: it is neither computed ahead of a run nor left out, and it waits for others.
    pub communicates: bool,
    /// It reads or changes what a device keeps beside its memory: it is neither computed ahead of a run nor left out.
    pub stateful: bool,
}

impl Marks {
    /// Whether it must run in every run of a graph, on the device: it is never computed ahead of one.
    pub fn runs_each_time(&self) -> bool {
        self.random || self.communicates || self.stateful
    }

    /// A row without marks.
    pub const NONE: Marks = Marks {
        elementwise: false,
        random: false,
        view: false,
        writes_first: false,
        writes: &[],
        from_shapes: false,
        needs_values: &[],
        sized_by_values: false,
        communicates: false,
        stateful: false,
    };
}

impl Node {
    /// Marked [`elementwise`](Marks::elementwise).
    pub const fn elementwise(mut self) -> Node {
        self.marks.elementwise = true;
        self
    }

    /// Marked [`random`](Marks::random).
    pub const fn random(mut self) -> Node {
        self.marks.random = true;
        self
    }

    /// Marked [`view`](Marks::view).
    pub const fn view(mut self) -> Node {
        self.marks.view = true;
        self
    }

    /// Marked [`writes_first`](Marks::writes_first).
    pub const fn writes_first(mut self) -> Node {
        self.marks.writes_first = true;
        self
    }

    /// Marked [`writes`](Marks::writes) of these outputs and inputs.
    pub const fn writes(mut self, pairs: &'static [(usize, usize)]) -> Node {
        self.marks.writes = pairs;
        self
    }

    /// Marked [`from_shapes`](Marks::from_shapes).
    pub const fn from_shapes(mut self) -> Node {
        self.marks.from_shapes = true;
        self
    }

    /// Marked [`needs_values`](Marks::needs_values) of the inputs at these indices.
    pub const fn needs_values(mut self, indices: &'static [usize]) -> Node {
        self.marks.needs_values = indices;
        self
    }

    /// Marked [`sized_by_values`](Marks::sized_by_values).
    pub const fn sized_by_values(mut self) -> Node {
        self.marks.sized_by_values = true;
        self
    }

    /// Marked [`stateful`](Marks::stateful).
    pub const fn stateful(mut self) -> Node {
        self.marks.stateful = true;
        self
    }

    /// Marked [`communicates`](Marks::communicates).
    pub const fn communicates(mut self) -> Node {
        self.marks.communicates = true;
        self
    }

    /// Whether the values of input `at` of a call with `count` inputs must be known before it can be planned.
    pub fn needs_value_of(&self, at: usize, count: usize) -> bool {
        self.marks.needs_values.contains(&self.declared(at, count))
    }
}
