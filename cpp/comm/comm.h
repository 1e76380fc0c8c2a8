// The C interface of libcairn_comm.so: what moves bytes between the ranks of one communicator, over Gloo.
//
// crates/comm/src/engine/gloo.rs is the other side. Nothing throws through it. Every function may be called from any thread;
// cairn_comm_destroy is the last call for its mesh.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Changes with every change of this file that an older caller would not survive.
#define CAIRN_COMM_INTERFACE 1

#define CAIRN_COMM_API __attribute__((visibility("default")))

enum CairnCommKind {
    CAIRN_COMM_DONE = 0,
    CAIRN_COMM_PEER_GONE = 1,
    CAIRN_COMM_TIMEOUT = 2,
    CAIRN_COMM_CLOSED = 3,
    CAIRN_COMM_LENGTH = 4,  // both sides named different lengths for one message
    CAIRN_COMM_OTHER = 5,
    CAIRN_COMM_STORE = 6,   // a function of the store failed; the caller knows why
};

// What went wrong; written when a function returns anything but CAIRN_COMM_DONE.
typedef struct {
    int32_t kind;
    int32_t peer;     // -1: unknown
    char text[1016];  // ends with a zero
} CairnCommFailure;

// Where ranks leave their addresses. Both functions return 0 for success. `get` waits for the key for at most the given time and hands the value
// to `put` once. They are called during cairn_comm_connect only, from its thread.
typedef struct {
    void *context;
    int (*set)(void *context, const char *key, size_t key_bytes, const uint8_t *value, size_t value_bytes);
    int (*get)(void *context, const char *key, size_t key_bytes, uint64_t timeout_ns, void *sink,
               void (*put)(void *sink, const uint8_t *value, size_t value_bytes));
} CairnCommStore;

typedef struct {
    uint32_t rank;
    uint32_t size;
    const char *address;    // what TCP binds, as a number; null: shared memory, all ranks are on this host
    uint64_t buffer_bytes;  // bound of this rank's shared buffers
    uint64_t timeout_ns;    // of the connect
} CairnCommSpec;

// A message to or from a peer. The pair (peer, slot) names it.
typedef struct {
    uint32_t peer;
    uint64_t slot;
    void *bytes;
    size_t count;
} CairnCommPart;

typedef struct CairnCommMesh CairnCommMesh;

CAIRN_COMM_API uint32_t cairn_comm_interface(void);

// Connects this rank with all others. The mesh is the caller's.
CAIRN_COMM_API int32_t cairn_comm_connect(const CairnCommSpec *spec, const CairnCommStore *store, CairnCommMesh **mesh,
                                          CairnCommFailure *failure);

// Posts all receives, then all sends, and returns when all are done or one failed; then nothing touches the bytes any more. A failure ends the
// mesh: every other exchange fails with it, and the peers notice. `timeout_ns` UINT64_MAX: no limit.
CAIRN_COMM_API int32_t cairn_comm_exchange(CairnCommMesh *mesh, const CairnCommPart *outgoing, size_t outgoing_count,
                                           const CairnCommPart *incoming, size_t incoming_count, uint64_t timeout_ns,
                                           CairnCommFailure *failure);

// Fails if the mesh has ended or a peer's process has; a peer that closed its mesh is no failure. Never waits.
CAIRN_COMM_API int32_t cairn_comm_check(CairnCommMesh *mesh, CairnCommFailure *failure);

// Ends every exchange in progress, and lets the peers notice.
CAIRN_COMM_API void cairn_comm_close(CairnCommMesh *mesh);

// Closes the mesh and frees it.
CAIRN_COMM_API void cairn_comm_destroy(CairnCommMesh *mesh);

#ifdef __cplusplus
}
#endif
