/*
 * The memory of peers behind a window of HcclCommSymWinRegister.
 */
#ifndef HCCL_SYM_WIN_H
#define HCCL_SYM_WIN_H

#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The address of a peer's part of a window, `offset` bytes after its begin. Ranks of one process have addresses of one another; the memory
 * of another process has none here, which is refused.
 */
HcclResult HcclSymWinGetPeerPointer(
    HcclCommSymWindow winHandle, size_t offset, uint32_t peerRank, void **ptr);

#ifdef __cplusplus
}
#endif

#endif
