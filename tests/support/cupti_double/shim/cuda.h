/* The types of CUDA's own cuda.h that CUPTI's headers name, so that they compile without it. */
#ifndef PROFTRACE_TESTS_SUPPORT_CUPTI_DOUBLE_SHIM_CUDA_H
#define PROFTRACE_TESTS_SUPPORT_CUPTI_DOUBLE_SHIM_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef int CUresult;
typedef struct CUctx_st* CUcontext;
typedef struct CUevent_st* CUevent;
typedef struct CUfunc_st* CUfunction;
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphExec_st* CUgraphExec;
typedef struct CUgraphNode_st* CUgraphNode;
typedef struct CUmod_st* CUmodule;
typedef struct CUstream_st* CUstream;
typedef enum { CU_DEVICE_ATTRIBUTE_NONE } CUdevice_attribute;
typedef struct CUaccessPolicyWindow_st CUaccessPolicyWindow;
typedef int CUgraphNodeType;
typedef enum { CU_STREAM_ATTRIBUTE_NONE } CUstreamAttrID;
typedef union {
  int value;
} CUstreamAttrValue;
typedef struct {
  char bytes[16];
} CUuuid;

#endif
