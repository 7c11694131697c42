/* How a compiled function is called: with one list of addresses, whole numbers and fractions, 8 bytes
 * each. As all of them take the same, a list of calls can be kept and made again (calls.c). */
#include <stdint.h>

union arg {
    void *p;
    int64_t n;
    double x;
};

typedef int64_t function(const union arg *args); /* 0, or what its caller is to be told */
