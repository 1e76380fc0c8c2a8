"""What benches/python/calls.c measures, in Python: prints the same names with nanoseconds per call."""

import time

import acl

ROUNDS, MALLOCS, OPERATORS, SMALL, SORTED = 7, 20000, 2000, 64, 64


def check(ret):
    if ret != 0:
        raise SystemExit(f"{ret}: {acl.get_recent_err_msg()}")


def mallocs():
    malloc, free = acl.rt.malloc, acl.rt.free
    for _ in range(MALLOCS):
        ptr, ret = malloc(4096, 0)
        check(ret)
        check(free(ptr))


def operators():
    execute = acl.op.execute_v2
    for _ in range(OPERATORS):
        check(execute("Relu", [small], buffers[:1], [small], buffers[1:2], attr, stream))
    check(acl.rt.synchronize_stream(stream))


def sorts():
    execute = acl.op.execute_v2
    for _ in range(OPERATORS):
        check(execute("Sort", [values], sorted_[:1], [values, indices], sorted_[1:], attr, stream))
    check(acl.rt.synchronize_stream(stream))


def measure(name, run, times):
    timings = []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter_ns()
        run()
        timings.append((time.perf_counter_ns() - begin) / times)
    print(f"{name} {min(timings[1:]):.1f}")


check(acl.init())
check(acl.rt.set_device(0))
stream, ret = acl.rt.create_stream()
check(ret)
base, ret = acl.rt.malloc(1 << 20, 0)
check(ret)
addresses = [acl.rt.malloc(4 * SORTED, 0)[0] for _ in range(3)]
check(acl.rt.memset(addresses[0], 4 * SORTED, 0, 4 * SORTED))
small, values = acl.create_tensor_desc(0, [SMALL], 2), acl.create_tensor_desc(0, [SORTED], 2)
indices = acl.create_tensor_desc(3, [SORTED], 2)
buffers = [acl.create_data_buffer(address, 4 * SMALL) for address in addresses]
sorted_ = [acl.create_data_buffer(address, 4 * SORTED) for address in addresses]
attr = acl.op.create_attr()
measure("malloc_free", mallocs, MALLOCS)
measure("operator", operators, OPERATORS)
measure("sort", sorts, OPERATORS)
desc = acl.rt.allocator_create_desc()
check(acl.rt.allocator_set_obj_to_desc(desc, base))
check(acl.rt.allocator_set_alloc_func_to_desc(desc, lambda obj, size: obj if size <= 1 << 20 else None))
check(acl.rt.allocator_set_free_func_to_desc(desc, lambda obj, block: None))
check(acl.rt.allocator_set_get_addr_from_block_func_to_desc(desc, lambda block: base))
check(acl.rt.allocator_register(stream, desc))
measure("sort_with_allocator", sorts, OPERATORS)
check(acl.rt.destroy_stream(stream))
check(acl.finalize())
