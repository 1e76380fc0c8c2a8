/*
 * Memory for windows of communicators.
 */
#ifndef HCOMM_RES_H
#define HCOMM_RES_H

#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef HcclResult HcommResult;

/** Device memory of the calling thread's device that HcclCommSymWinRegister takes. */
HcommResult HcommMemAlloc(void **ptr, size_t size);

/** Frees it. */
HcommResult HcommMemFree(void *ptr);

#ifdef __cplusplus
}
#endif

#endif
