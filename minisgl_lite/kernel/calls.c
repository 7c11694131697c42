/* A list of calls, one after another, with nothing in between: see engine/tape.py. */
#include "calls.h"

struct call {
    function *function;
    const union arg *args;
};

/* args: the calls, their number, and where the first answer that is not 0 is to be written. Returns 0,
 * or 1 + the number of the call that gave that answer; those after it are not made. */
int64_t make_calls(const union arg *args) {
    const struct call *calls = args[0].p;
    for (int64_t i = 0; i < args[1].n; i++) {
        int64_t answer = calls[i].function(calls[i].args);
        if (answer) {
            *(int64_t *)args[2].p = answer;
            return i + 1;
        }
    }
    return 0;
}
