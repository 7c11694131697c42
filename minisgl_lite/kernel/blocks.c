/* y = x W^T for a weight that stays as a GGUF file has it: blocks of 32 values (models/gguf/dequant.py).
 *
 * A step for few rows is bound by the bytes of the weights. So each block is read once, widened to
 * 32 fp32 numbers in registers, and multiplied with up to 8 rows of x while it is there. One row of
 * W is walked from end to end before the next begins: that is the order in which memory is fast.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float f32x16 __attribute__((vector_size(64)));
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

INLINE f32x16 widen(u8x16 q) {
    return __builtin_convertvector(__builtin_convertvector(q, i32x16), f32x16);
}

/* Values 0 .. 15 of a block of nibbles into low, 16 .. 31 into high; each is d * q + m. */
INLINE void read_nibbles(u8x16 bytes, float d, float m, f32x16 *low, f32x16 *high) {
#ifdef __AVX512F__ /* the 16 values that a nibble can stand for, looked up by its four bits */
    const f32x16 all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    __m512 values = (__m512)(d * all + m);
    __m512i q = _mm512_cvtepu8_epi32((__m128i)bytes);
    *low = (f32x16)_mm512_permutexvar_ps(q, values);
    *high = (f32x16)_mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), values);
#else
    *low = d * widen(bytes & 15) + m;
    *high = d * widen(bytes >> 4) + m;
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
    float d = half(block);
    u8x16 first, second;
    int head = type == Q4_1 ? 4 : 2;
    memcpy(&first, block + head, 16);
    if (type != Q8_0) {
        read_nibbles(first, d, type == Q4_1 ? half(block + 2) : -8 * d, low, high);
        return head + 16;
    }
    memcpy(&second, block + head + 16, 16);
    *low = d * read_bytes(first);
    *high = d * read_bytes(second);
    return head + 32;
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
    f32x16 low_sum[ROWS], high_sum[ROWS]; /* two chains of additions, which need not wait for each other */
    for (int r = 0; r < n; r++) {
        at[r] = x + (r < rows ? r : rows - 1) * in;
        low_sum[r] = high_sum[r] = (f32x16){0};
    }
    for (long k = 0; k < in; k += 32) {
        f32x16 low, high, a, b;
        int bytes = read_block(type, w, &low, &high);
        if ((uintptr_t)w % LINE < (unsigned)bytes) __builtin_prefetch(w + AHEAD, 0, 2);
        w += bytes;
        for (int r = 0; r < n; r++) {
            memcpy(&a, at[r] + k, sizeof a);
            memcpy(&b, at[r] + k + 16, sizeof b);
            low_sum[r] += low * a;
            high_sum[r] += high * b;
        }
    }
    for (int r = 0; r < n && r < rows; r++) y[r * out] = sum(low_sum[r] + high_sum[r]);
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
