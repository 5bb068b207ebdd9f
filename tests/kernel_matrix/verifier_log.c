/* Preloaded into proftrace: libbpf's own messages, the verifier's log among them, go to stderr. */
#include <stddef.h>

void* libbpf_set_print(void* print);

void* libbpf_set_print(void* print) {
  (void)print;
  return NULL;
}
