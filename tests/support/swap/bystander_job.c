/* Runs its library's function all the time. Prints its value when that is another one. */
#include <stdio.h>
#include <unistd.h>

int Five(void);

int main(void) {
  int last = 0;
  for (;;) {
    const int value = Five();
    if (value != last) {
      printf("value %d\n", value);
      fflush(stdout);
      last = value;
    }
    usleep(1000);
  }
}
