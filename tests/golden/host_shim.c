/* Preloaded while a golden capture is recorded: no fact of the machine gets into it. */
#include <string.h>
#include <sys/utsname.h>

int uname(struct utsname* host) {
  memset(host, 0, sizeof(*host));
  strcpy(host->sysname, "Linux");
  strcpy(host->nodename, "example");
  strcpy(host->release, "6.1.0-example");
  strcpy(host->version, "#1 SMP");
  strcpy(host->machine, "x86_64");
  return 0;
}
