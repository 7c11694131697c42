/* y = x W^T for a weight that stays as a GGUF file has it: blocks of 32 values (models/gguf/dequant.py).
 *
 * A step for few rows is bound by the bytes of the weights. So each block is read once, widened to
 * 32 fp32 numbers in registers, and multiplied with up to 8 rows of x while it is there. One row of
 * W, or a pair, is walked from end to end before the next begins: so memory is read in its order.
 */
#include "calls.h"
#include "vectors.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));

enum { Q4_0 = 2, Q4_1 = 3, Q8_0 = 8 }; /* as the file numbers them */
enum { ROWS = 8 };                     /* of x, at most, per pass over W */
enum { AHEAD = 4096 };                 /* bytes; without it a core waits for one line after another */
enum { LINE = 64 };

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

/* A half, widened, in all 16 places. */
INLINE f32x16 halves(const uint8_t *at) {
#ifdef __AVX512FP16__ /* spread before it is widened: two instructions fewer */
    _Float16 value;
    memcpy(&value, at, 2);
    return (f32x16)_mm512_cvtxph_ps(_mm256_set1_ph(value));
#else
    return half(at) + (f32x16){0};
#endif
}

INLINE f32x16 widen(u8x16 q) {
    return __builtin_convertvector(__builtin_convertvector(q, i32x16), f32x16);
}

/* Values 0 .. 15 of a block of nibbles into low, 16 .. 31 into high; q stands for d * (q - zero) + m. */
INLINE void read_nibbles(u8x16 bytes, f32x16 d, float zero, f32x16 m, f32x16 *low, f32x16 *high) {
#ifdef __AVX512F__ /* the 16 values that a nibble can stand for, looked up by its four bits */
    const f32x16 all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    __m512 values = (__m512)(d * (all - zero) + m);
    __m512i q = _mm512_cvtepu8_epi32((__m128i)bytes);
    *low = (f32x16)_mm512_permutexvar_ps(q, values);
    *high = (f32x16)_mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), values);
#else
    *low = d * (widen(bytes & 15) - zero) + m;
    *high = d * (widen(bytes >> 4) - zero) + m;
#endif
}

/* 16 signed bytes. */
INLINE f32x16 read_bytes(u8x16 bytes) {
#ifdef __AVX512F__
    return (f32x16)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)bytes));
#else /* gcc 12 widens signed bytes one by one */
    return widen(bytes ^ 128) - 128;
#endif
}

/* One block, its 32 values in order; returns its size in bytes. */
INLINE int read_block(int type, const uint8_t *block, f32x16 *low, f32x16 *high) {
    const f32x16 none = {0};
    f32x16 d = halves(block);
    u8x16 first, second;
    int head = type == Q4_1 ? 4 : 2;
    memcpy(&first, block + head, 16);
    if (type != Q8_0) {
        bool has_minimum = type == Q4_1;
        read_nibbles(first, d, has_minimum ? 0 : 8, has_minimum ? halves(block + 2) : none, low, high);
        return head + 16;
    }
    memcpy(&second, block + head + 16, 16);
    *low = d * read_bytes(first);
    *high = d * read_bytes(second);
    return head + 32;
}

/* m rows of W with n rows of x, the last of x repeated where there are fewer: y[r * out + j].
 * NOTE: each number is summed in the same order whatever m and n are, so a request's numbers do not
 * depend on its batch-mates. */
INLINE void multiply_rows(int type, int m, int n, const uint8_t *w, long stride, const float *x,
                          float *y, long rows, long in, long out) {
    const float *at[ROWS];
    f32x16 low_sum[ROWS][2], high_sum[ROWS][2]; /* chains of additions that need not wait for each other */
    for (int r = 0; r < n; r++) {
        at[r] = x + (r < rows ? r : rows - 1) * in;
        for (int j = 0; j < m; j++) low_sum[r][j] = high_sum[r][j] = (f32x16){0};
    }
    for (long k = 0; k < in; k += 32) {
        f32x16 low[2], high[2], a, b;
        int bytes = 0;
        for (int j = 0; j < m; j++) {
            const uint8_t *block = w + j * stride;
            bytes = read_block(type, block, low + j, high + j);
            if ((uintptr_t)block % LINE < (unsigned)bytes) __builtin_prefetch(block + AHEAD, 0, 2);
        }
        w += bytes;
        for (int r = 0; r < n; r++) {
            memcpy(&a, at[r] + k, sizeof a);
            memcpy(&b, at[r] + k + 16, sizeof b);
            for (int j = 0; j < m; j++) {
                low_sum[r][j] += low[j] * a;
                high_sum[r][j] += high[j] * b;
            }
        }
    }
    for (int j = 0; j < m; j++)
        for (int r = 0; r < n && r < rows; r++) y[r * out + j] = sum(low_sum[r][j] + high_sum[r][j]);
}

/* Two rows of W at a time share what is read of x, as long as there are registers for their sums. */
#define PASS(TYPE, N)                                                                               \
    if (type == TYPE && rows <= N) {                                                                \
        const int m = N <= 4 ? 2 : 1;                                                               \
        _Pragma("omp parallel for num_threads(threads) schedule(static)")                           \
        for (long o = 0; o < out - out % m; o += m)                                                 \
            multiply_rows(TYPE, m, N, w + o * bytes, bytes, x, y + o, rows, in, out);               \
        if (out % m)                                                                                \
            multiply_rows(TYPE, 1, N, w + (out - 1) * bytes, bytes, x, y + out - 1, rows, in, out); \
        return;                                                                                     \
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
static void all_passes(int type, const uint8_t *w, const float *x, float *y, long rows, long in, long out,
                       int threads) {
    for (long r = 0; r < rows; r += ROWS)
        one_pass(type, w, x + r * in, y + r * out, rows - r < ROWS ? rows - r : ROWS, in, out, threads);
}

int64_t blocks_linear(const union arg *a) {
    all_passes(a[0].n, a[1].p, a[2].p, a[3].p, a[4].n, a[5].n, a[6].n, a[7].n);
    return 0;
}
