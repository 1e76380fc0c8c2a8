// The store that Gloo asks while it connects, over the caller's two functions.
#pragma once

#include <map>

#include <gloo/rendezvous/store.h>

#include "comm.h"
#include "deadline.h"

namespace cairn::comm {

// A value that was read once is kept: Gloo first waits for a key and then reads it, sometimes twice.
class CallbackStore : public ::gloo::rendezvous::Store {
  public:
    CallbackStore(const CairnCommStore &functions, Deadline deadline) : functions_(functions), deadline_(deadline) {}

    void set(const std::string &key, const std::vector<char> &value) override;
    std::vector<char> get(const std::string &key) override;
    void wait(const std::vector<std::string> &keys) override;
    void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &timeout) override;

  private:
    CairnCommStore functions_;
    Deadline deadline_;
    std::map<std::string, std::vector<char>> known_;
};

}  // namespace cairn::comm
