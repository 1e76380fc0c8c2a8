#include "tcp_device.h"

#include <algorithm>
#include <csignal>
#include <map>

#include <sys/timerfd.h>
#include <unistd.h>

#include "failure.h"

namespace cairn::comm {

std::shared_ptr<TcpDevice> TcpDevice::at(const std::string &address) {
    // Never destroyed, like the threads. A forked process has none of them, and makes its own.
    static std::mutex &mutex = *new std::mutex;
    static auto &devices = *new std::map<std::pair<pid_t, std::string>, std::shared_ptr<TcpDevice>>;
    std::lock_guard<std::mutex> lock(mutex);
    auto &device = devices[{getpid(), address}];
    if (!device) {
        device = std::make_shared<TcpDevice>(address);
    }
    return device;
}

TcpDevice::TcpDevice(const std::string &address) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        ::gloo::transport::tcp::attr attributes(address.c_str());
        device_ = ::gloo::transport::tcp::CreateDevice(attributes);
    } catch (const std::exception &error) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw Failure(CAIRN_COMM_OTHER, Failure::kNoPeer, "cannot use the address " + address + ": " + error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer_ < 0) {
        throw systemFailure(Failure::kNoPeer, "cannot make a timer");
    }
    static_cast<::gloo::transport::tcp::Device &>(*device_).registerDescriptor(timer_, EPOLLIN, this);
}

void TcpDevice::add(Ticked *ticked) {
    std::lock_guard<std::mutex> lock(mutex_);
    ticked_.push_back(ticked);
}

void TcpDevice::remove(Ticked *ticked) {
    std::lock_guard<std::mutex> lock(mutex_);
    ticked_.erase(std::remove(ticked_.begin(), ticked_.end(), ticked), ticked_.end());
}

void TcpDevice::need(Pace pace, int count) {
    std::lock_guard<std::mutex> lock(mutex_);
    (pace == Pace::Hurry ? hurrying_ : watching_) += count;
    setTimer();
}

void TcpDevice::setTimer() {
    long period = hurrying_ > 0 ? 500'000 : (watching_ > 0 ? 10'000'000 : 0);
    itimerspec current{};
    timerfd_gettime(timer_, &current);
    if (current.it_interval.tv_nsec != period) {
        itimerspec wanted{{0, period}, {0, period}};
        timerfd_settime(timer_, 0, &wanted, nullptr);
    }
}

void TcpDevice::handleEvents(int) {
    uint64_t count;
    if (read(timer_, &count, sizeof count) < 0) {
        return;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    for (Ticked *one : ticked_) {
        one->tick();
    }
}

NoSigpipe::NoSigpipe() {
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    wasPending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
}

NoSigpipe::~NoSigpipe() {
    if (sigismember(&before_, SIGPIPE) == 1) {
        return;
    }
    if (!wasPending_) {
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        timespec now{0, 0};
        while (sigtimedwait(&pipe, nullptr, &now) == SIGPIPE) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace cairn::comm
