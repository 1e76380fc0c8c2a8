// An allocator whose memory can sleep: a block keeps its addresses while its memory is given back to the system, and gets
// other memory there when it wakes. Python copies the contents out and in between.
#include "acl/acl.h"
#include <cstddef>
#include <map>
#include <mutex>

namespace {

struct Block {
    size_t bytes;
    aclrtDrvMemHandle handle;
};

std::mutex lock;
std::map<void *, Block> blocks;

aclrtPhysicalMemProp device_memory(int device)
{
    aclrtPhysicalMemProp prop = {};
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = static_cast<uint32_t>(device);
    return prop;
}

bool give_memory(void *address, Block &block, int device)
{
    aclrtPhysicalMemProp prop = device_memory(device);
    if (aclrtMallocPhysical(&block.handle, block.bytes, &prop, 0) != ACL_SUCCESS)
        return false;
    return aclrtMapMem(address, block.bytes, 0, block.handle, 0) == ACL_SUCCESS;
}

} // namespace

extern "C" {

void *my_malloc(size_t bytes, int device, aclrtStream)
{
    aclrtPhysicalMemProp prop = device_memory(device);
    size_t granularity = 0;
    void *address = nullptr;
    if (aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity) != ACL_SUCCESS)
        return nullptr;
    Block block = {(bytes + granularity - 1) / granularity * granularity, nullptr};
    if (aclrtReserveMemAddress(&address, block.bytes, 0, nullptr, 0) != ACL_SUCCESS)
        return nullptr;
    if (!give_memory(address, block, device)) {
        aclrtReleaseMemAddress(address);
        return nullptr;
    }
    std::lock_guard<std::mutex> held(lock);
    blocks[address] = block;
    return address;
}

void my_free(void *address, size_t, int, aclrtStream)
{
    std::lock_guard<std::mutex> held(lock);
    Block block = blocks.at(address);
    blocks.erase(address);
    if (block.handle != nullptr) {
        aclrtUnmapMem(address);
        aclrtFreePhysical(block.handle);
    }
    aclrtReleaseMemAddress(address);
}

// The block number `index`: its address and its bytes. False if there are not so many.
bool block_at(size_t index, void **address, size_t *bytes)
{
    std::lock_guard<std::mutex> held(lock);
    auto found = blocks.begin();
    for (; index > 0 && found != blocks.end(); --index)
        ++found;
    if (found == blocks.end())
        return false;
    *address = found->first;
    *bytes = found->second.bytes;
    return true;
}

// Takes the memory of a block away, or gives it new memory.
int set_asleep(void *address, bool is_asleep, int device)
{
    std::lock_guard<std::mutex> held(lock);
    Block &block = blocks.at(address);
    if (!is_asleep)
        return give_memory(address, block, device) ? 0 : 1;
    int code = aclrtUnmapMem(address);
    if (code == ACL_SUCCESS)
        code = aclrtFreePhysical(block.handle);
    block.handle = nullptr;
    return code;
}

}
