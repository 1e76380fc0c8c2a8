// A moment after which nobody waits any more, or none.
#pragma once

#include <chrono>
#include <cstdint>

namespace cairn::comm {

using Clock = std::chrono::steady_clock;

struct Deadline {
    Clock::time_point at = Clock::time_point::max();

    static Deadline after(uint64_t nanoseconds) {
        // More than a century is for ever; adding it could overflow.
        constexpr uint64_t kForever = 4'000'000'000ull * 1'000'000'000ull;
        return nanoseconds >= kForever ? Deadline{} : Deadline{Clock::now() + std::chrono::nanoseconds(nanoseconds)};
    }

    bool isSet() const { return at != Clock::time_point::max(); }

    bool hasPassed(Clock::time_point now = Clock::now()) const { return isSet() && now >= at; }

    // What is left, at least zero and at most `most`.
    std::chrono::nanoseconds left(std::chrono::nanoseconds most, Clock::time_point now = Clock::now()) const {
        if (!isSet()) {
            return most;
        }
        auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(at - now);
        return rest.count() < 0 ? std::chrono::nanoseconds(0) : (rest < most ? rest : most);
    }

    // The same in whole milliseconds, rounded up, for poll.
    int leftMs(int most) const {
        auto rest = left(std::chrono::milliseconds(most));
        return static_cast<int>((rest.count() + 999'999) / 1'000'000);
    }
};

}  // namespace cairn::comm
