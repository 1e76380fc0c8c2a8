// Gloo's devices for TCP: one for each address, with one thread each, for as long as the process lives.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gloo/transport/tcp/device.h>

namespace cairn::comm {

// Is called on the device's thread while somebody needs it. It must not wait, nor close pairs.
class Ticked {
  public:
    virtual ~Ticked() = default;
    virtual void tick() = 0;
};

// How often ticks come.
enum class Pace { Rest, Watch, Hurry };

// A device, and ticks on its thread. Gloo's own loop turns every 10 ms when nothing happens, and everything that connects or closes waits for
// its turn: ticks make it turn more often.
class TcpDevice : private ::gloo::transport::tcp::Handler {
  public:
    // The device of an address (a number) in this process. Fails if the address is none of this host.
    static std::shared_ptr<TcpDevice> at(const std::string &address);

    explicit TcpDevice(const std::string &address);

    std::shared_ptr<::gloo::transport::Device> &gloo() { return device_; }

    void add(Ticked *ticked);
    // Returns when no tick of it is running.
    void remove(Ticked *ticked);
    // Asks for ticks, until called again with the same pace and -1.
    void need(Pace pace, int count);

  private:
    void handleEvents(int events) override;
    void setTimer();

    std::shared_ptr<::gloo::transport::Device> device_;
    int timer_ = -1;
    std::mutex mutex_;
    std::vector<Ticked *> ticked_;
    int watching_ = 0;
    int hurrying_ = 0;
};

// Asks for ticks while it exists.
class Paced {
  public:
    Paced(TcpDevice &device, Pace pace) : device_(device), pace_(pace) { device_.need(pace_, 1); }
    ~Paced() { device_.need(pace_, -1); }
    Paced(const Paced &) = delete;
    Paced &operator=(const Paced &) = delete;

  private:
    TcpDevice &device_;
    Pace pace_;
};

// Keeps SIGPIPE from the calling thread while it exists: Gloo writes to sockets whose other end may be closed.
class NoSigpipe {
  public:
    NoSigpipe();
    ~NoSigpipe();
    NoSigpipe(const NoSigpipe &) = delete;
    NoSigpipe &operator=(const NoSigpipe &) = delete;

  private:
    sigset_t before_;
    bool wasPending_;
};

}  // namespace cairn::comm
