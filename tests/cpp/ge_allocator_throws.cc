// links: -lge_runner
// strings: both
/* A user's allocator that throws: the call fails with its text, nothing leaks, and the next run works. */
#include "ge_check.h"
#include <memory>
#include <set>
#include <stdexcept>

using namespace ge;

/* Gives device memory; throws at the n-th block. */
class ThrowingAllocator : public Allocator {
public:
    int throws_at = 0, calls = 0;
    bool throws_text = true;
    std::set<MemBlock *> live;

    MemBlock *Malloc(size_t size) override
    {
        if (++calls == throws_at) {
            if (throws_text)
                throw std::runtime_error("no block today");
            throw 7;
        }
        void *memory = nullptr;
        if (aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST) != 0)
            return nullptr;
        MemBlock *block = new MemBlock(*this, memory, size);
        live.insert(block);
        return block;
    }

    void Free(MemBlock *block) override
    {
        CHECK_EQ(live.erase(block), 1);
        CHECK_CODE(aclrtFree(block->GetAddr()), 0);
        delete block;
    }
};

int main()
{
    GROUP("ge allocator throws: at every block, with and without a text");
    CHECK_CODE(aclInit(nullptr), 0);
    CHECK_CODE(aclrtSetDevice(0), 0);
    aclrtStream stream = nullptr;
    CHECK_CODE(aclrtCreateStream(&stream), 0);
    OK(GEInitialize(Options{{"ge.exec.deviceId", "0"}}));
    const std::vector<float> values = {1, 2, 3, 4};
    void *device = nullptr;
    CHECK_CODE(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    CHECK_CODE(aclrtMemcpy(device, 16, values.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    {
        Session session(Options{});
        auto allocator = std::make_shared<ThrowingAllocator>();
        OK(session.RegisterExternalAllocator(stream, allocator));
        int failures = 0;
        for (uint32_t at = 1; at < 20; at++) {
            allocator->calls = 0;
            allocator->throws_at = static_cast<int>(at);
            allocator->throws_text = at % 2 == 1;
            OK(session.AddGraphWithCopy(at, add_and_multiply(values, 4)));
            TensorDesc desc = floats({4});
            desc.SetPlacement(kPlacementDevice);
            Tensor in(desc);
            OK(in.SetData(static_cast<uint8_t *>(device), 16, [](uint8_t *) {}));
            std::vector<Tensor> outputs;
            const Status status = session.RunGraphWithStreamAsync(at, stream, {in}, outputs);
            const bool thrown = allocator->calls >= allocator->throws_at;
            CHECK_EQ(status, thrown ? FAILED : SUCCESS);
            if (thrown) {
                failures++;
                const std::string error_text = GEGetErrorMsg();
                CHECK(!error_text.empty());
                CHECK(!allocator->throws_text || error_text.find("no block today") != std::string::npos);
                CHECK(outputs.empty());
                allocator->throws_at = 0;
                OK(session.RunGraphWithStreamAsync(at, stream, {in}, outputs));
            }
            CHECK_CODE(aclrtSynchronizeStream(stream), 0);
            CHECK_EQ(outputs.size(), 1);
            float result[4] = {0};
            if (outputs.size() == 1)
                CHECK_CODE(aclrtMemcpy(result, 16, outputs[0].GetData(), 16, ACL_MEMCPY_DEVICE_TO_HOST), 0);
            CHECK(result[0] == 2 && result[3] == 32);
            outputs.clear();
            OK(session.RemoveGraph(at));
            CHECK_EQ(allocator->live.size(), 0);
            if (!thrown)
                break;
        }
        CHECK(failures > 0);
        OK(session.UnregisterExternalAllocator(stream));
        CHECK_EQ(allocator.use_count(), 1);
    }
    OK(GEFinalize());
    CHECK_CODE(aclrtFree(device), 0);
    CHECK_CODE(aclrtDestroyStream(stream), 0);
    CHECK_CODE(aclrtResetDevice(0), 0);
    CHECK_CODE(aclFinalize(), 0);
    return END();
}
