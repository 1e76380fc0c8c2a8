#include "landing.h"

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "greeting.h"

namespace cairn::comm::shared {

namespace {

struct Landing {
    char *memory;
    uint64_t bytes;
    unsigned writers = 0;
};

struct Landings {
    std::mutex mutex;
    std::condition_variable idle;
    std::unordered_map<uint64_t, Landing> open;
    uint64_t next;

    Landings() {
        Secret start = randomSecret();
        memcpy(&next, start.data(), sizeof next);
    }
};

// Never destroyed: threads may still wait in it when the process ends.
Landings &landings() {
    static Landings *all = new Landings;
    return *all;
}

}  // namespace

uint64_t openLanding(char *memory, uint64_t bytes) {
    Landings &all = landings();
    std::lock_guard<std::mutex> lock(all.mutex);
    do {
        all.next++;
    } while (all.next == 0 || all.open.count(all.next) > 0);
    all.open.emplace(all.next, Landing{memory, bytes});
    return all.next;
}

void closeLanding(uint64_t landing) {
    Landings &all = landings();
    std::unique_lock<std::mutex> lock(all.mutex);
    auto found = all.open.find(landing);
    if (found == all.open.end()) {
        return;
    }
    found->second.bytes = 0;
    all.idle.wait(lock, [&] { return all.open.at(landing).writers == 0; });
    all.open.erase(landing);
}

bool copyToLanding(uint64_t landing, uint64_t offset, const char *bytes, uint64_t count) {
    Landings &all = landings();
    std::unique_lock<std::mutex> lock(all.mutex);
    auto found = all.open.find(landing);
    if (found == all.open.end() || offset > found->second.bytes || count > found->second.bytes - offset) {
        return false;
    }
    found->second.writers++;
    char *target = found->second.memory + offset;
    lock.unlock();
    memcpy(target, bytes, count);
    lock.lock();
    if (--all.open.at(landing).writers == 0) {
        all.idle.notify_all();
    }
    return true;
}

}  // namespace cairn::comm::shared
