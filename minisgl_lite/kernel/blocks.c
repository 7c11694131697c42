/* y = x W^T for a weight that stays as a GGUF file has it: blocks of 32 values (models/gguf/dequant.py).
 *
 * A step for few rows is bound by the bytes of the weights. So each block is read once, widened to
 * 32 fp32 numbers in registers, and multiplied with up to 8 rows of x while it is there. One row of
 * W is walked from end to end before the next begins: that is the order in which memory is fast.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));

enum { Q4_0 = 2, Q4_1 = 3, Q8_0 = 8 }; /* as the file numbers them */
enum { ROWS = 8 };                     /* of x, at most, per pass over W */
enum { AHEAD = 2048 };                 /* bytes; without it a core waits for one line after another */

INLINE float half(const uint8_t *at) {
#ifdef __F16C__ /* with AVX512-FP16 a cast would wait for what its target register held before */
    uint16_t bits;
    memcpy(&bits, at, 2);
    return _cvtsh_ss(bits);
#else
    _Float16 value;
    memcpy(&value, at, 2);
    return (float)value;
#endif
}

INLINE f32x16 widen(u8x16 q) {
    return __builtin_convertvector(__builtin_convertvector(q, i32x16), f32x16);
}

/* Values 0 .. 15 of a block into low, 16 .. 31 into high; returns the block's size in bytes.
 * Each value is d * q + m with q unsigned: signed bytes are taken as q - 128 (gcc 12 widens signed
 * bytes one by one). */
INLINE int read_block(int type, const uint8_t *block, f32x16 *low, f32x16 *high) {
    float d = half(block);
    float m = type == Q4_1 ? half(block + 2) : type == Q4_0 ? -8 * d : -128 * d;
    int head = type == Q4_1 ? 4 : 2;
    u8x16 first, second;
    memcpy(&first, block + head, 16);
    if (type == Q8_0) {
        memcpy(&second, block + head + 16, 16);
        first ^= 128;
        second ^= 128;
    } else {
        second = first >> 4;
        first &= 15;
    }
    *low = d * widen(first) + m;
    *high = d * widen(second) + m;
    return head + (type == Q8_0 ? 32 : 16);
}

INLINE float sum(f32x16 v) {
    float total = 0;
    for (int i = 0; i < 16; i++) total += v[i];
    return total;
}

/* One row of W with n rows of x, the last ones repeated where there are fewer: y[r * out].
 * NOTE: each row is summed in the same order whatever n is, so a request's numbers do not depend
 * on its batch-mates. */
INLINE void multiply_row(int type, int n, const uint8_t *w, const float *x, float *y, long rows,
                         long in, long out) {
    const float *at[ROWS];
    f32x16 acc[ROWS];
    for (int r = 0; r < n; r++) {
        at[r] = x + (r < rows ? r : rows - 1) * in;
        acc[r] = (f32x16){0};
    }
    for (long k = 0; k < in; k += 32) {
        f32x16 low, high, a, b;
        __builtin_prefetch(w + AHEAD);
        w += read_block(type, w, &low, &high);
        for (int r = 0; r < n; r++) {
            memcpy(&a, at[r] + k, sizeof a);
            memcpy(&b, at[r] + k + 16, sizeof b);
            acc[r] += low * a;
            acc[r] += high * b;
        }
    }
    for (int r = 0; r < n && r < rows; r++) y[r * out] = sum(acc[r]);
}

#define PASS(TYPE, N)                                                                  \
    if (type == TYPE && rows <= N) {                                                   \
        _Pragma("omp parallel for num_threads(threads) schedule(static)")              \
        for (long o = 0; o < out; o++)                                                 \
            multiply_row(TYPE, N, w + o * bytes, x, y + o, rows, in, out);             \
        return;                                                                        \
    }
#define PASSES(TYPE) PASS(TYPE, 1) PASS(TYPE, 2) PASS(TYPE, 4) PASS(TYPE, 8)

static void one_pass(int type, const uint8_t *w, const float *x, float *y, long rows, long in,
                     long out, int threads) {
    long bytes = in / 32 * (type == Q8_0 ? 34 : type == Q4_1 ? 20 : 18);
    PASSES(Q4_0)
    PASSES(Q4_1)
    PASSES(Q8_0)
}

/* x: (rows, in), w: (out, in / 32 blocks), y: (rows, out), all contiguous. */
void blocks_linear(int type, const uint8_t *w, const float *x, float *y, long rows, long in, long out,
                   int threads) {
    for (long r = 0; r < rows; r += ROWS)
        one_pass(type, w, x + r * in, y + r * out, rows - r < ROWS ? rows - r : ROWS, in, out, threads);
}
