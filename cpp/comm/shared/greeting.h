// How two ranks of one host meet: one connects to a socket of the other, and each hands the other its shared memory.
//
// The sockets lie in the abstract namespace, so that nothing is left when a process ends in whatever way. The name is random; who knows it
// from a list of sockets does not know the secret that comes with it in the address.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gloo/transport/address.h>

#include "../deadline.h"
#include "segment.h"

namespace cairn::comm::shared {

using Secret = std::array<uint8_t, 16>;

Secret randomSecret();

// Where a rank listens.
class Address : public ::gloo::transport::Address {
  public:
    Address(const Secret &name, const Secret &secret) : name(name), secret(secret) {}
    // Fails for bytes that are no address.
    explicit Address(const std::vector<char> &bytes);

    std::string str() const override;
    std::vector<char> bytes() const override;

    Secret name;
    Secret secret;
};

// What a rank says of itself.
struct Hello {
    uint64_t magic;
    uint32_t rank;
    uint32_t ranks;
    uint64_t ringBytes;
    uint64_t process;  // equal for ranks of one process
    Secret secret;     // of the listening side
};

constexpr uint64_t kHelloMagic = 0x6361'6972'6e63'3031;

// A peer, met.
struct Acquaintance {
    Descriptor socket;
    Descriptor segment;
    Hello hello;
    int process;  // id as this process sees it; 0: not seen
};

// A number for this process that no other has, also not one that was forked from it.
uint64_t processNumber();

class Listener {
  public:
    Listener();
    const Address &address() const { return address_; }

    // Waits for the next rank that knows the secret, and answers it; others are dropped.
    Acquaintance accept(Hello own, int segment, Deadline deadline);

  private:
    Address address_;
    Descriptor socket_;
};

// Connects to a rank that listens.
Acquaintance greet(const Address &address, int peer, Hello own, int segment, Deadline deadline);

}  // namespace cairn::comm::shared
