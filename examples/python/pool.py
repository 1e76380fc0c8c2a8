"""A memory pool of one's own, registered on a stream: the operators that run there work in its memory.

    source $TOOLKIT/set_env.sh && python pool.py
"""

import struct

import acl

COUNT, TIMES, SLOT = 200000, 20, 4 << 20


def must(ret):
    if ret != 0:
        raise SystemExit(f"error {ret}: {acl.get_recent_err_msg()}")


class Pool:
    """Slots of device memory; a block is the number of its slot."""

    def __init__(self, slots):
        self.base, ret = acl.rt.malloc(slots * SLOT, 0)
        must(ret)
        self.idle = list(range(1, slots + 1))
        self.taken = self.given_back = self.largest = 0

    def alloc(self, _, size):
        if size > SLOT or not self.idle:
            return None
        self.taken += 1
        self.largest = max(self.largest, size)
        return self.idle.pop()

    def free(self, _, block):
        self.given_back += 1
        self.idle.append(block)

    def address(self, block):
        return self.base + (block - 1) * SLOT

    def register(self, stream):
        desc = acl.rt.allocator_create_desc()
        must(acl.rt.allocator_set_obj_to_desc(desc, id(self)))
        must(acl.rt.allocator_set_alloc_func_to_desc(desc, self.alloc))
        must(acl.rt.allocator_set_free_func_to_desc(desc, self.free))
        must(acl.rt.allocator_set_get_addr_from_block_func_to_desc(desc, self.address))
        must(acl.rt.allocator_register(stream, desc))
        must(acl.rt.allocator_destroy_desc(desc))


must(acl.init())
must(acl.rt.set_device(0))
stream, ret = acl.rt.create_stream()
must(ret)
pool = Pool(slots=4)
pool.register(stream)

numbers = [float(i * 7919 % COUNT) for i in range(COUNT)]
data = struct.pack(f"{COUNT}f", *numbers)
places = [acl.rt.malloc(len(data), 0)[0] for _ in range(3)]
must(acl.rt.memcpy(places[0], len(data), acl.util.bytes_to_ptr(data), len(data), 1))
floats, whole = acl.create_tensor_desc(0, [COUNT], 2), acl.create_tensor_desc(3, [COUNT], 2)
buffers = [acl.create_data_buffer(place, len(data)) for place in places]
attr = acl.op.create_attr()
must(acl.op.set_attr_int(attr, "axis", -1))
must(acl.op.set_attr_bool(attr, "descending", 0))
for _ in range(TIMES):
    must(acl.op.execute_v2("Sort", [floats], buffers[:1], [floats, whole], buffers[1:], attr, stream))
must(acl.rt.synchronize_stream(stream))

host, ret = acl.rt.malloc_host(len(data))
must(ret)
must(acl.rt.memcpy(host, len(data), places[1], len(data), 2))
right = list(struct.unpack(f"{COUNT}f", acl.util.ptr_to_bytes(host, len(data)))) == sorted(numbers)
print(f"Sort of {COUNT} numbers, {TIMES} times: {'in order' if right else 'WRONG'}")
print(f"the pool: {pool.taken} blocks taken, {pool.given_back} given back, {pool.largest >> 10} KiB the largest")

for buffer in buffers:
    must(acl.destroy_data_buffer(buffer))
for ptr in [*places, pool.base]:
    must(acl.rt.free(ptr))
must(acl.rt.free_host(host))
must(acl.rt.destroy_stream(stream))
must(acl.rt.reset_device(0))
must(acl.finalize())
raise SystemExit(0 if right else 1)
