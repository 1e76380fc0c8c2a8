"""A memory pool of one's own, registered on a stream: the operators that run there work in its memory.

    source $TOOLKIT/set_env.sh && python pool.py
"""

import struct

import acl

COUNT, TIMES, SLOT = 200000, 20, 4 << 20


def check(ret):
    if ret != 0:
        raise SystemExit(f"error {ret}: {acl.get_recent_err_msg()}")


class Pool:
    """Slots of device memory; a block is the number of its slot."""

    def __init__(self, slots):
        self.base, ret = acl.rt.malloc(slots * SLOT, 0)
        check(ret)
        self.free_slots = list(range(1, slots + 1))
        self.taken = self.given_back = self.largest = 0

    def alloc(self, _, size):
        if size > SLOT or not self.free_slots:
            return None
        self.taken += 1
        self.largest = max(self.largest, size)
        return self.free_slots.pop()

    def free(self, _, block):
        self.given_back += 1
        self.free_slots.append(block)

    def address(self, block):
        return self.base + (block - 1) * SLOT

    def register(self, stream):
        desc = acl.rt.allocator_create_desc()
        check(acl.rt.allocator_set_obj_to_desc(desc, id(self)))
        check(acl.rt.allocator_set_alloc_func_to_desc(desc, self.alloc))
        check(acl.rt.allocator_set_free_func_to_desc(desc, self.free))
        check(acl.rt.allocator_set_get_addr_from_block_func_to_desc(desc, self.address))
        check(acl.rt.allocator_register(stream, desc))
        check(acl.rt.allocator_destroy_desc(desc))


check(acl.init())
check(acl.rt.set_device(0))
stream, ret = acl.rt.create_stream()
check(ret)
pool = Pool(slots=4)
pool.register(stream)

numbers = [float(i * 7919 % COUNT) for i in range(COUNT)]
data = struct.pack(f"{COUNT}f", *numbers)
addresses = [acl.rt.malloc(len(data), 0)[0] for _ in range(3)]
check(acl.rt.memcpy(addresses[0], len(data), acl.util.bytes_to_ptr(data), len(data), 1))
floats, ints = acl.create_tensor_desc(0, [COUNT], 2), acl.create_tensor_desc(3, [COUNT], 2)
buffers = [acl.create_data_buffer(address, len(data)) for address in addresses]
attr = acl.op.create_attr()
check(acl.op.set_attr_int(attr, "axis", -1))
check(acl.op.set_attr_bool(attr, "descending", 0))
for _ in range(TIMES):
    check(acl.op.execute_v2("Sort", [floats], buffers[:1], [floats, ints], buffers[1:], attr, stream))
check(acl.rt.synchronize_stream(stream))

host, ret = acl.rt.malloc_host(len(data))
check(ret)
check(acl.rt.memcpy(host, len(data), addresses[1], len(data), 2))
in_order = list(struct.unpack(f"{COUNT}f", acl.util.ptr_to_bytes(host, len(data)))) == sorted(numbers)
print(f"Sort of {COUNT} numbers, {TIMES} times: {'in order' if in_order else 'WRONG'}")
print(f"the pool: {pool.taken} blocks taken, {pool.given_back} given back, {pool.largest >> 10} KiB the largest")

for buffer in buffers:
    check(acl.destroy_data_buffer(buffer))
for ptr in [*addresses, pool.base]:
    check(acl.rt.free(ptr))
check(acl.rt.free_host(host))
check(acl.rt.destroy_stream(stream))
check(acl.rt.reset_device(0))
check(acl.finalize())
raise SystemExit(0 if in_order else 1)
