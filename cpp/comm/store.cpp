#include "store.h"

#include "failure.h"

namespace cairn::comm {

void CallbackStore::set(const std::string &key, const std::vector<char> &value) {
    auto bytes = reinterpret_cast<const uint8_t *>(value.data());
    if (functions_.set(functions_.context, key.data(), key.size(), bytes, value.size()) != 0) {
        throw Failure(CAIRN_COMM_STORE, Failure::kNoPeer, "the store does not take the key " + key);
    }
}

std::vector<char> CallbackStore::get(const std::string &key) {
    auto found = known_.find(key);
    if (found != known_.end()) {
        return found->second;
    }
    std::vector<char> value;
    auto put = [](void *sink, const uint8_t *bytes, size_t count) {
        static_cast<std::vector<char> *>(sink)->assign(bytes, bytes + count);
    };
    auto timeout = deadline_.left(std::chrono::hours(24 * 365));
    if (functions_.get(functions_.context, key.data(), key.size(), static_cast<uint64_t>(timeout.count()), &value, put) != 0) {
        throw Failure(CAIRN_COMM_STORE, Failure::kNoPeer, "the store does not give the key " + key);
    }
    return known_.emplace(key, std::move(value)).first->second;
}

void CallbackStore::wait(const std::vector<std::string> &keys) {
    for (const std::string &key : keys) {
        get(key);
    }
}

void CallbackStore::wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &) { wait(keys); }

}  // namespace cairn::comm
