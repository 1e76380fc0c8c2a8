// What goes on between this rank and one peer. Every function needs the lock of the context.
//
// A receive that is posted says so: Ready. Then its message comes:
//
//     Letter   the whole message, at most kLetterBytes
//     Chunk    a part of a longer one, in order
//     Placed   it is there: the sender is in this process and copied it to the landing that Ready named
//
// A letter may also go before its Ready came, as long as what a sender has sent that way, and has no Ready for, is at most kEarlyBytes (64 bytes
// at least each). The receiver moves it aside until the receive is posted. All other messages wait in the sender's own memory for their Ready.
// So whatever stands in a ring can be taken out at once, and no message ever waits behind another one.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "greeting.h"
#include "ring.h"
#include "transfer.h"

namespace cairn::comm::shared {

constexpr uint64_t kLetterBytes = 4096;
constexpr uint64_t kEarlyBytes = 64 * 1024;

class Link {
  public:
    // `lane` and `ring` are those from the peer in this rank's segment.
    Link(int peer, Acquaintance met, Lane *lane, const char *ring, uint64_t ringBytes, uint32_t rank);

    const int peer;

    void send(Transfer transfer);
    void receive(Transfer transfer);

    // Writes what there is room for. True if anything moved.
    bool pump();
    // Takes out what came. True if there was anything.
    bool drain();
    // Forgets all transfers of a buffer; the bytes are not touched any more.
    void cancel(const Buffer *owner);
    // Wakes the peer if there is news for it.
    void announce();

    // Whether the other side still takes part; `Left` and `Failed` are what it says itself.
    State peerState() const;
    void wakePeer() { shared::ring(*header_); }
    void hangUp();

    int socket() const { return socket_.number(); }
    int processDescriptor() const { return process_.number(); }

    // Ends all transfers with the peer that are not done. A peer that is Open in its own words has lost its process.
    void endAs(State state);
    bool isEnded() const { return ended_; }
    // Ended, and not because the peer closed its side.
    bool isLost() const { return lost_; }
    const std::string &endText() const { return endText_; }

  private:
    struct Announced {
        uint64_t total;
        uint64_t landing;
    };

    void begin(Transfer transfer, uint64_t landing);
    void write(RecordKind kind, const Transfer &transfer, uint64_t extra);
    bool pumpStream(Transfer &transfer, bool &moved);
    void takeLetter(const Record &record);
    void takeReady(const Record &record);
    void takeChunk(const Record &record);
    void takePlaced(const Record &record);
    void close(const Transfer &receive);
    void finish(Transfer &transfer, bool received);

    Mapping control_;
    Mapping ring_;
    SegmentHeader *header_;
    Descriptor socket_;
    Descriptor process_;
    bool sameProcess_;

    Outlet out_;
    Inlet in_;
    uint64_t capacity_;
    bool news_ = false;

    // Sends: records without bytes that found no room, letters on their way, longer messages on their way, and all that wait for Ready.
    std::deque<Record> notes_;
    std::deque<Transfer> letters_;
    std::deque<Transfer> streams_;
    std::unordered_map<uint64_t, Transfer> unready_;
    // What the peer is ready for and this rank does not send yet.
    std::unordered_map<uint64_t, Announced> ready_;
    // Letters that went before their Ready: what they count.
    std::unordered_map<uint64_t, uint64_t> early_;
    uint64_t earlyBytes_ = 0;

    // Receives that are posted, and letters that came before their receive.
    std::unordered_map<uint64_t, Transfer> posted_;
    std::unordered_map<uint64_t, std::vector<char>> aside_;
    uint64_t asideBytes_ = 0;

    bool ended_ = false;
    bool lost_ = false;
    std::string endText_;
};

}  // namespace cairn::comm::shared
