/* How the stand-in for CUPTI hears of what is done with the stand-in for CUDA. */
#ifndef PROFTRACE_TESTS_SUPPORT_CUDA_DOUBLE_LISTENER_H
#define PROFTRACE_TESTS_SUPPORT_CUDA_DOUBLE_LISTENER_H

#include <stdint.h>

enum cuda_double_what {
  CUDA_DOUBLE_CALL = 1, /* `name` is the function's; it ended with `result` */
  CUDA_DOUBLE_KERNEL = 2,
  CUDA_DOUBLE_MEMCPY = 3,
  CUDA_DOUBLE_MEMSET = 4,
  CUDA_DOUBLE_SYNCHRONIZE = 5,
  CUDA_DOUBLE_ALLOCATE = 6,
  CUDA_DOUBLE_FREE = 7,
};

struct cuda_double_event {
  enum cuda_double_what what;
  unsigned correlation; /* the same for a call and the work that it causes */
  const char* name;
  uint64_t start; /* by the listener's clock */
  uint64_t end;
  uint64_t address;
  uint64_t bytes;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  unsigned stream;     /* its handle's number; 0 = the default one */
  unsigned graph;      /* of a kernel of a CUDA graph; 0 = none */
  uint64_t graph_node; /* of a kernel of a CUDA graph; 0 = none */
  int copy_kind;       /* cudaMemcpyKind: 1 = to the device, 2 = from it, 3 = on it */
  unsigned value;
  int result;
  int is_driver; /* CUDA_DOUBLE_CALL: called by itself, not by the Runtime */
};

struct cuda_double_listener {
  uint64_t (*now)(void);
  void (*hear)(const struct cuda_double_event* event);
};

/* Functions of the stand-in for libcuda. */
void cuda_double_listen(const struct cuda_double_listener* listener); /* NULL = nobody */
void cuda_double_set_correlation(unsigned next);

/* Around each call: what it causes is told in between. */
struct cuda_double_call {
  struct cuda_double_event event; /* of the call; `start` and `end` are its own */
  int is_outermost;
};
void cuda_double_begin(struct cuda_double_call* call, const char* name, int is_driver);
void cuda_double_work(struct cuda_double_call* call, enum cuda_double_what what);
int cuda_double_end(struct cuda_double_call* call, int result); /* gives `result` */

/* What a test gives as the handle of a CUDA graph. */
struct cuda_double_graph {
  unsigned id;
  unsigned kernels; /* that it launches, one after the other */
  const char* name; /* of each of them */
};

#endif
