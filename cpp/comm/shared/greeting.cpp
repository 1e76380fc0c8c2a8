#include "greeting.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../failure.h"

namespace cairn::comm::shared {

namespace {

// How long a rank that connected may take to say hello.
constexpr uint64_t kHelloNs = 2'000'000'000;

template <typename Value>
Value randomValue() {
    Value value;
    if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
        throw systemFailure(Failure::kNoPeer, "the system gives no random numbers");
    }
    return value;
}

socklen_t fill(sockaddr_un &target, const Secret &name) {
    memset(&target, 0, sizeof target);
    target.sun_family = AF_UNIX;
    char *text = target.sun_path + 1;
    text += sprintf(text, "cairn-comm-");
    for (uint8_t byte : name) {
        text += sprintf(text, "%02x", byte);
    }
    return static_cast<socklen_t>(text - reinterpret_cast<char *>(&target));
}

void sendHello(int socket, const Hello &hello, int segment, int peer) {
    iovec bytes{const_cast<Hello *>(&hello), sizeof hello};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &segment, sizeof segment);
    if (sendmsg(socket, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello)) {
        throw systemFailure(peer, "cannot greet rank " + std::to_string(peer));
    }
}

bool isReadable(int socket, Deadline deadline) {
    for (;;) {
        pollfd wait{socket, POLLIN, 0};
        int count = poll(&wait, 1, deadline.leftMs(1000));
        if (count > 0) {
            return true;
        }
        if (count < 0 && errno != EINTR) {
            throw systemFailure(Failure::kNoPeer, "cannot wait for a socket");
        }
        if (deadline.hasPassed()) {
            return false;
        }
    }
}

// Receives a hello with a file; false when it is neither.
bool receiveHello(int socket, Hello &hello, Descriptor &segment) {
    iovec bytes{&hello, sizeof hello};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0) {
        return false;
    }
    for (cmsghdr *part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS && part->cmsg_len == CMSG_LEN(sizeof(int))) {
            int number;
            memcpy(&number, CMSG_DATA(part), sizeof number);
            segment = Descriptor(number);
        }
    }
    return count == static_cast<ssize_t>(sizeof hello) && hello.magic == kHelloMagic && segment;
}

// The process and the user at the other end.
ucred credentials(int socket) {
    ucred who{};
    socklen_t bytes = sizeof who;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) {
        throw systemFailure(Failure::kNoPeer, "cannot see who connected");
    }
    return who;
}

bool sameSecret(const Secret &left, const Secret &right) {
    uint8_t difference = 0;
    for (size_t i = 0; i < left.size(); i++) {
        difference |= left[i] ^ right[i];
    }
    return difference == 0;
}

}  // namespace

Secret randomSecret() { return randomValue<Secret>(); }

uint64_t processNumber() {
    static std::mutex mutex;
    static uint64_t number;
    static pid_t owner = 0;
    std::lock_guard<std::mutex> lock(mutex);
    if (owner != getpid()) {
        number = randomValue<uint64_t>();
        owner = getpid();
    }
    return number;
}

Address::Address(const std::vector<char> &bytes) {
    if (bytes.size() != name.size() + secret.size()) {
        throw Failure(CAIRN_COMM_OTHER, Failure::kNoPeer,
                      "an address in shared memory has " + std::to_string(name.size() + secret.size()) + " bytes, not " +
                          std::to_string(bytes.size()) + ": do all ranks use the same transport?");
    }
    memcpy(name.data(), bytes.data(), name.size());
    memcpy(secret.data(), bytes.data() + name.size(), secret.size());
}

std::string Address::str() const {
    sockaddr_un target;
    fill(target, name);
    return std::string("@") + (target.sun_path + 1);
}

std::vector<char> Address::bytes() const {
    std::vector<char> bytes(name.begin(), name.end());
    bytes.insert(bytes.end(), secret.begin(), secret.end());
    return bytes;
}

Listener::Listener() : address_(randomSecret(), randomSecret()), socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un target;
    socklen_t bytes = fill(target, address_.name);
    if (!socket_ || bind(socket_.number(), reinterpret_cast<sockaddr *>(&target), bytes) != 0 || listen(socket_.number(), 4096) != 0) {
        throw systemFailure(Failure::kNoPeer, "cannot listen on a socket of this host");
    }
}

Acquaintance Listener::accept(Hello own, int segment, Deadline deadline) {
    own.secret = Secret{};
    for (;;) {
        if (!isReadable(socket_.number(), deadline)) {
            throw Failure(CAIRN_COMM_TIMEOUT, Failure::kNoPeer, "not all ranks connected in time");
        }
        Descriptor socket(accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket) {
            continue;
        }
        ucred who = credentials(socket.number());
        if (who.uid != geteuid() && who.uid != 0 && geteuid() != 0) {
            continue;
        }
        Acquaintance met;
        auto limit = Deadline::after(std::min<uint64_t>(kHelloNs, static_cast<uint64_t>(deadline.left(std::chrono::hours(1)).count())));
        if (!isReadable(socket.number(), limit) || !receiveHello(socket.number(), met.hello, met.segment) ||
            !sameSecret(met.hello.secret, address_.secret)) {
            continue;
        }
        sendHello(socket.number(), own, segment, static_cast<int>(met.hello.rank));
        met.socket = std::move(socket);
        met.process = who.pid;
        return met;
    }
}

Acquaintance greet(const Address &address, int peer, Hello own, int segment, Deadline deadline) {
    std::string name = "rank " + std::to_string(peer);
    Acquaintance met;
    met.socket = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un target;
    socklen_t bytes = fill(target, address.name);
    if (!met.socket || connect(met.socket.number(), reinterpret_cast<sockaddr *>(&target), bytes) != 0) {
        if (met.socket && errno == ECONNREFUSED) {
            throw Failure(CAIRN_COMM_PEER_GONE, peer, name + " does not listen any more, or is on another host or in another network namespace");
        }
        throw systemFailure(peer, "cannot connect to " + name);
    }
    own.secret = address.secret;
    sendHello(met.socket.number(), own, segment, peer);
    if (!isReadable(met.socket.number(), deadline)) {
        throw Failure(CAIRN_COMM_TIMEOUT, peer, name + " did not answer in time");
    }
    if (!receiveHello(met.socket.number(), met.hello, met.segment)) {
        throw Failure(CAIRN_COMM_PEER_GONE, peer, name + " hung up instead of answering");
    }
    met.process = credentials(met.socket.number()).pid;
    return met;
}

}  // namespace cairn::comm::shared
