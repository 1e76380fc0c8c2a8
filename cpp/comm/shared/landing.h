// Memory of receives that ranks of the same process may write to directly.
//
// A landing is open from the post of the receive until it is done or cancelled; closing waits for whoever is copying.
#pragma once

#include <cstdint>

namespace cairn::comm::shared {

// Opens `bytes` of memory for direct writes; the result is never 0.
uint64_t openLanding(char *memory, uint64_t bytes);

void closeLanding(uint64_t landing);

// Copies to the landing; false if it is closed, or too short.
bool copyToLanding(uint64_t landing, uint64_t offset, const char *bytes, uint64_t count);

}  // namespace cairn::comm::shared
