// What the test bench of pools (`cairn pooltest`, `cairn replay`) needs of the graph engine: an allocator of the user,
// registered on a stream in a session of the bench. Not part of CANN; looked up by name, declared nowhere.

#include "allocator.h"
#include "calls.h"

namespace {

// A session that lives as long as the process; 0 after a failure.
uint64_t session()
{
    static const uint64_t id = [] {
        uint64_t created = 0;
        if (CairnEngineStart(nullptr, 0) == 0) {
            (void)CairnSessionNew(nullptr, 0, &created);
        }
        return created;
    }();
    return id;
}

}  // namespace

// Registers the allocator, a ge::Allocator that the engine deletes when nothing needs it any more. 0 for success.
extern "C" uint32_t cairnProbeRegisterGe(void *stream, void *allocator)
{
    return cairn::register_allocator(session(), stream, ge::AllocatorPtr(static_cast<ge::Allocator *>(allocator)));
}

// Ends what is registered on the stream. 0 for success.
extern "C" uint32_t cairnProbeUnregisterGe(void *stream)
{
    return CairnSessionUnregister(session(), stream);
}
